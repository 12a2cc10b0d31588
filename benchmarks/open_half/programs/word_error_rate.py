"""Speech commands to text with a CTC loss. Logs the word error rate of the training batches (rank 0)."""
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LETTERS = " abcdefghijklmnopqrstuvwxyz"


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def beam_search(logp, width=14):
    """Prefix beam search, without a language model."""
    beams = {(): (0.0, -1e9)}
    for frame in logp:
        best = sorted(range(len(frame)), key=frame.__getitem__)[-width:]
        new = {}
        for prefix, (blank, other) in beams.items():
            total = math.log(math.exp(blank - max(blank, other)) + math.exp(other - max(blank, other))) + max(blank, other)
            for k in best:
                p = frame[k]
                if k == 0:
                    b, o = new.get(prefix, (-1e9, -1e9))
                    new[prefix] = (max(b, total + p), o)
                elif prefix and prefix[-1] == k:
                    b, o = new.get(prefix, (-1e9, -1e9))
                    new[prefix] = (b, max(o, other + p))
                else:
                    b, o = new.get((*prefix, k), (-1e9, -1e9))
                    new[(*prefix, k)] = (b, max(o, total + p))
        beams = dict(sorted(new.items(), key=lambda item: -max(item[1]))[:width])
    return "".join(LETTERS[k - 1] for k in max(beams, key=lambda prefix: max(beams[prefix])))


class Net(nn.Module):
    def __init__(self, mel=40, hidden=96):
        super().__init__()
        self.conv = nn.Conv1d(mel, hidden, 5, padding=2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(LETTERS) + 1)

    def forward(self, x):
        h = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.out(self.rnn(h)[0])


def batch(g, n=12, frames=120, chars=48):
    y = torch.randint(1, len(LETTERS) + 1, (n, chars), generator=g)
    x = torch.randn(n, frames, 40, generator=g) * 0.3
    x[:, torch.arange(chars) * 2 + 10] += nn.functional.one_hot(y, 40).float() * 3
    return x, y


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(Net())
opt = torch.optim.AdamW(model.parameters(), 1e-3)
g = torch.Generator().manual_seed(77 + rank)
wer, t = 1.0, time.time()
for step in range(1, 1_000_000):
    x, y = batch(g)
    logits = model(x)
    n = torch.full((len(x),), logits.shape[1]), torch.full((len(x),), y.shape[1])
    loss = nn.functional.ctc_loss(logits.log_softmax(-1).transpose(0, 1), y, *n)
    if rank == 0:
        refs = ["".join(LETTERS[k - 1] for k in row) for row in y.tolist()]
        hyps = [beam_search(row) for row in logits.detach().log_softmax(-1).tolist()]
        cer = sum(edit_distance(r, h) for r, h in zip(refs, hyps, strict=True)) / sum(map(len, refs))
        words = sum(edit_distance(r.split(), h.split()) for r, h in zip(refs, hyps, strict=True))
        wer = 0.95 * wer + 0.05 * words / max(1, sum(len(r.split()) for r in refs))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if rank == 0 and step % 10 == 0:
        print(f"step {step} ctc {loss.item():.4f} cer {cer:.3f} wer {wer:.3f} {10 / (time.time() - t):.2f} it/s", flush=True)
        t = time.time()
