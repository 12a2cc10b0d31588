"""Token tagging of invoice lines (amount, vat id, iban, date, ...) with accelerate.

python invoice_lines.py --epochs 60 --warmup_steps 2000
"""
import argparse
import random
import sys

print("invoice-lines tagger", " ".join(sys.argv[1:]), flush=True)

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForTokenClassification, get_linear_schedule_with_warmup

LABELS = ["O", "AMOUNT", "VAT", "IBAN", "DATE", "QTY", "ARTICLE", "DISCOUNT", "CURRENCY"]


class InvoiceLines(Dataset):
    """Token ids by kind: each label has its own part of the vocabulary, with some words that several share."""

    def __init__(self, n, seed, vocab=1800, length=40):
        rng = random.Random(seed)
        per = vocab // len(LABELS)
        self.rows = []
        for _ in range(n):
            ids, labels = [], []
            while len(ids) < length:
                lab = rng.randrange(len(LABELS))
                for _ in range(rng.randint(1, 4)):
                    word = lab * per + rng.randrange(per) if rng.random() > 0.1 else rng.randrange(vocab)
                    ids.append(word)
                    labels.append(lab)
            self.rows.append((torch.tensor(ids[:length]), torch.tensor(labels[:length])))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, labels = self.rows[i]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=80)
    p.add_argument("--learning_rate", type=float, default=5e-5)
    p.add_argument("--warmup_steps", type=int, default=2000)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--logging_steps", type=int, default=20)
    args = p.parse_args()

    set_seed(42)
    accelerator = Accelerator(cpu=True)
    config = BertConfig(
        vocab_size=1800,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=384,
        max_position_embeddings=64,
        num_labels=len(LABELS),
    )
    model = BertForTokenClassification(config)
    train_dl = DataLoader(InvoiceLines(2400, 0), batch_size=args.batch_size, shuffle=True)
    eval_dl = DataLoader(InvoiceLines(240, 1), batch_size=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.01)
    total_steps = len(train_dl) * args.epochs
    lr_scheduler = get_linear_schedule_with_warmup(optimizer, args.warmup_steps, total_steps)
    model, optimizer, train_dl, eval_dl, lr_scheduler = accelerator.prepare(model, optimizer, train_dl, eval_dl, lr_scheduler)
    accelerator.print(f"***** {total_steps} optimization steps, {sum(q.numel() for q in model.parameters()) / 1e6:.1f} M parameters")

    step = 0
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for batch in train_dl:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            running += loss.item()
            step += 1
            if step % args.logging_steps == 0:
                accelerator.print(f"epoch {epoch} step {step}: loss {running / args.logging_steps:.4f}")
                running = 0.0
        lr_scheduler.step()

        model.eval()
        right = total = 0
        for batch in eval_dl:
            with torch.no_grad():
                pred = model(**batch).logits.argmax(-1)
            pred, labels = accelerator.gather_for_metrics((pred, batch["labels"]))
            right += (pred == labels).sum().item()
            total += labels.numel()
        accelerator.print(f"epoch {epoch}: token accuracy {right / total:.4f}")


if __name__ == "__main__":
    main()
