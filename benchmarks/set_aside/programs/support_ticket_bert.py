"""Fine-tune-like training of a small BERT on support tickets (5 queues), from scratch."""
import argparse
import random
import time

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

QUEUES = ["Billing", "Network", "Hardware", "Account", "Shipping"]
WORDS = {
    "Billing": "INVOICE REFUND CHARGE PAYMENT CARD TAX RECEIPT DISCOUNT",
    "Network": "WIFI VPN ROUTER LATENCY DNS FIREWALL PROXY CABLE",
    "Hardware": "LAPTOP SCREEN KEYBOARD BATTERY DOCK FAN DISK MONITOR",
    "Account": "PASSWORD LOGIN TOKEN ROLE PROFILE LOCKED EMAIL ACCESS",
    "Shipping": "PARCEL COURIER DELAY ADDRESS CUSTOMS LABEL TRACKING DEPOT",
}
FILLER = ("PLEASE THE A MY IS NOT SINCE YESTERDAY AGAIN HELP WITH THIS ON AND WE CANNOT USE IT NEED SOON TEAM "
          "CUSTOMER SAID STILL AFTER UPDATE MONDAY OFFICE THANKS").split()


def write_tickets(n, rng):
    rows = []
    for _ in range(n):
        q = rng.randrange(len(QUEUES))
        topic = WORDS[QUEUES[q]].split()
        words = [rng.choice(topic) if rng.random() < 0.3 else rng.choice(FILLER) for _ in range(rng.randint(14, 44))]
        rows.append((" ".join(words), q))
    return rows


class WordTokenizer:
    def __init__(self, texts, max_len):
        self.vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
        for t in texts:
            for w in t.lower().split():
                self.vocab.setdefault(w, len(self.vocab))
        self.max_len = max_len

    def __call__(self, texts):
        seqs = []
        for t in texts:
            ids = [self.vocab.get(w, 1) for w in t.split()][: self.max_len - 2]
            seqs.append([2] + ids + [3])
        width = max(map(len, seqs))
        ids = torch.zeros(len(seqs), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, s in enumerate(seqs):
            ids[i, : len(s)] = torch.tensor(s)
            mask[i, : len(s)] = 1
        return {"input_ids": ids, "attention_mask": mask}


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--train_size", type=int, default=6000)
    ap.add_argument("--per_device_train_batch_size", type=int, default=32)
    ap.add_argument("--learning_rate", type=float, default=3e-4)
    ap.add_argument("--num_train_epochs", type=int, default=30)
    ap.add_argument("--warmup_steps", type=int, default=60)
    ap.add_argument("--logging_steps", type=int, default=10)
    ap.add_argument("--seed", type=int, default=42)
    args = ap.parse_args(argv)
    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    train_rows, eval_rows = write_tickets(args.train_size, rng), write_tickets(400, rng)
    tok = WordTokenizer([t for t, _ in train_rows], max_len=64)

    def collate(rows):
        batch = tok([t for t, _ in rows])
        batch["labels"] = torch.tensor([q for _, q in rows])
        return batch

    train_dl = DataLoader(train_rows, batch_size=args.per_device_train_batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    eval_dl = DataLoader(eval_rows, batch_size=64, collate_fn=collate)
    config = BertConfig(vocab_size=len(tok.vocab), hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                        intermediate_size=384, max_position_embeddings=64, num_labels=len(QUEUES))
    model = BertForSequenceClassification(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    total = args.num_train_epochs * len(train_dl)
    scheduler = get_linear_schedule_with_warmup(optimizer, args.warmup_steps, total)
    print(f"***** Running training *****\n  Num examples = {len(train_rows)}\n  Vocabulary = {len(tok.vocab)}\n"
          f"  Total optimization steps = {total}", flush=True)
    step, acc_loss, started = 0, 0.0, time.time()
    for epoch in range(args.num_train_epochs):
        model.train()
        for batch in train_dl:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            acc_loss += loss.item()
            if step % args.logging_steps == 0:
                print({"loss": round(acc_loss / args.logging_steps, 4), "learning_rate": scheduler.get_last_lr()[0],
                       "epoch": round(step / len(train_dl), 2), "step": step}, flush=True)
                acc_loss = 0.0
        model.eval()
        right = 0
        with torch.no_grad():
            for batch in eval_dl:
                labels = batch.pop("labels")
                pred = model(**{k: v.to(device) for k, v in batch.items()}).logits.argmax(-1).cpu()
                right += (pred == labels).sum().item()
        print({"eval_accuracy": right / len(eval_rows), "epoch": epoch + 1, "runtime": round(time.time() - started, 1)}, flush=True)


if __name__ == "__main__":
    main()
