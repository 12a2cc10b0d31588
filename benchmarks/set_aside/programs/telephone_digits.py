"""Reads strings of digits from telephone speech with CTC (Accelerate).

    python telephone_digits.py --epochs 10
"""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

DIGITS = "0123456789"
BLANK = 0
N_MELS = 40


class Calls(Dataset):
    """Each digit is a pattern over a few frames; people speak at their own rate."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        patterns = np.random.default_rng(0).normal(size=(10, 2, N_MELS)).astype(np.float32)
        self.calls = []
        for _ in range(count):
            digits = rng.integers(0, 10, rng.integers(4, 12))
            pace = rng.lognormal(np.log(18), 0.22)
            frames = []
            for d in digits:
                n = max(3, int(pace * rng.uniform(0.8, 1.2)))
                half = n // 2
                frames.append(np.repeat(patterns[d, :1], half, 0))
                frames.append(np.repeat(patterns[d, 1:], n - half, 0))
            x = np.concatenate(frames)
            x = x * rng.uniform(0.7, 1.3) + rng.normal(0, 0.9, x.shape)
            self.calls.append((torch.from_numpy(x.astype(np.float32)), torch.from_numpy(digits + 1)))

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, i):
        return self.calls[i]


def collate(batch):
    xs, ys = zip(*batch)
    x_len = torch.tensor([len(x) for x in xs])
    y_len = torch.tensor([len(y) for y in ys])
    x = nn.utils.rnn.pad_sequence(xs, batch_first=True)
    return x, x_len, torch.cat(ys), y_len


class Recognizer(nn.Module):
    def __init__(self, width=224):
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv1d(N_MELS, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv1d(width, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv1d(width, width, 3, stride=2, padding=1), nn.ReLU())
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, len(DIGITS) + 1)

    def forward(self, x, x_len):
        h = self.subsample(x.transpose(1, 2)).transpose(1, 2)
        h, _ = self.rnn(h)
        for _ in range(3):
            x_len = (x_len + 1) // 2
        return self.out(h).log_softmax(-1), x_len


def greedy(log_probs, lengths):
    texts = []
    for row, n in zip(log_probs.argmax(-1), lengths):
        best = torch.unique_consecutive(row[:n])
        texts.append("".join(DIGITS[i - 1] for i in best.tolist() if i != BLANK))
    return texts


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (ca != cb))
    return row[-1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--calls", type=int, default=3000)
    p.add_argument("--epochs", type=int, default=24)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--log-every", type=int, default=20)
    args = p.parse_args()
    torch.set_num_threads(1)
    set_seed(12)
    accelerator = Accelerator()
    train = DataLoader(Calls(args.calls, 1), args.batch_size, shuffle=True, collate_fn=collate)
    valid = DataLoader(Calls(200, 2), args.batch_size, collate_fn=collate)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    ctc = nn.CTCLoss(blank=BLANK)
    accelerator.print(f"{args.calls} calls, {len(train)} batches, device {accelerator.device}", flush=True)

    step, begin = 0, time.time()
    for epoch in range(1, args.epochs + 1):
        model.train()
        for x, x_len, y, y_len in train:
            log_probs, out_len = model(x, x_len)
            loss = ctc(log_probs.transpose(0, 1), y, out_len, y_len)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % args.log_every == 0:
                accelerator.print(f"step {step} epoch {epoch} ctc {loss.item():.4f} ({step / (time.time() - begin):.1f} it/s)", flush=True)
        model.eval()
        wrong = total = 0
        with torch.no_grad():
            for x, x_len, y, y_len in valid:
                log_probs, out_len = model(x, x_len)
                for text, truth in zip(greedy(log_probs, out_len), torch.split(y, y_len.tolist())):
                    wrong += distance(text, "".join(DIGITS[i - 1] for i in truth.tolist()))
                    total += len(truth)
        accelerator.print(f"epoch {epoch}: digit error rate {wrong / total:.3f}", flush=True)


if __name__ == "__main__":
    main()
