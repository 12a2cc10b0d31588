"""BiLSTM tagger with Accelerate: gradient accumulation, warm-up, evaluation on all ranks."""
import argparse
import os
import tempfile
import time

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_cosine_schedule_with_warmup


class Tagger(nn.Module):
    def __init__(self, vocab, tags, dim=96, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.2)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, ids):
        return self.out(self.lstm(self.emb(ids))[0])


def corpus(n, length, vocab, tags, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocab, (n, length), generator=g)
    prev = torch.roll(ids, 1, 1)
    nxt = torch.roll(ids, -1, 1)
    y = (ids // 50 + (prev % 3 == 0).long() * 2 + (nxt % 5 == 0).long()) % tags
    return TensorDataset(ids, y)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--gradient_accumulation_steps", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--num_warmup_steps", type=int, default=80)
    p.add_argument("--num_epochs", type=int, default=30)
    p.add_argument("--eval_steps", type=int, default=120)
    p.add_argument("--mixed_precision", default="no", choices=["no", "fp16", "bf16"])
    args = p.parse_args()
    set_seed(8)
    acc = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision=args.mixed_precision)
    train_dl = DataLoader(corpus(9600, 40, 600, 9, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    eval_dl = DataLoader(corpus(640, 40, 600, 9, 2), batch_size=32)
    model = Tagger(600, 9)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    updates = len(train_dl) // args.gradient_accumulation_steps * args.num_epochs
    sched = get_cosine_schedule_with_warmup(opt, args.num_warmup_steps, updates)
    model, opt, train_dl, eval_dl, sched = acc.prepare(model, opt, train_dl, eval_dl, sched)
    loss_fn = nn.CrossEntropyLoss()
    acc.print(f"processes {acc.num_processes}, device {acc.device}, {len(train_dl)} batches per process and epoch")
    out, step, t0 = tempfile.mkdtemp(prefix="tagger_") if acc.is_main_process else None, 0, time.time()
    for epoch in range(args.num_epochs):
        for ids, y in train_dl:
            model.train()
            with acc.accumulate(model):
                loss = loss_fn(model(ids).flatten(0, 1), y.flatten())
                acc.backward(loss)
                if acc.sync_gradients:
                    acc.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                sched.step()
                opt.zero_grad()
            step += 1
            if step % 8 == 0 and acc.is_main_process:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e} {time.time() - t0:.0f}s", flush=True)
            if step % args.eval_steps == 0:
                model.eval()
                right = total = 0
                with torch.no_grad():
                    for ids_e, y_e in eval_dl:
                        pred, ref = acc.gather_for_metrics((model(ids_e).argmax(-1), y_e))
                        right, total = right + (pred == ref).sum().item(), total + ref.numel()
                if acc.is_main_process:
                    print(f"eval step {step}: accuracy {right / total:.4f}", flush=True)
                    torch.save(acc.unwrap_model(model).state_dict(), os.path.join(out, "last.pt"))
    acc.end_training()


if __name__ == "__main__":
    main()
