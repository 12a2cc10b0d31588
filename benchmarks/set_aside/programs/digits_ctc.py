"""Reading rows of handwritten digits with CTC. torchrun --nproc-per-node=2 digits_ctc.py"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BLANK = 10


def rows(n, g, length=48):
    labels = torch.randint(0, 10, (n, length // 6), generator=g)
    glyphs = torch.randn(10, 6, 20, generator=torch.Generator().manual_seed(7))
    x = glyphs[labels].reshape(n, length, 20) + 0.5 * torch.randn(n, length, 20, generator=g)
    return x, labels


class Reader(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.rnn = nn.GRU(20, hidden, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, 11)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)


def beam_search(logp, width=12):
    """Prefix beam search, straight from the paper."""
    beams = {(): (0.0, float("-inf"))}
    add = lambda a, b: max(a, b) + torch.log1p(torch.exp(torch.tensor(-abs(a - b)))).item() if max(a, b) > -1e30 else max(a, b)  # noqa: E731
    for frame in logp.tolist():
        new = {}
        for prefix, (pb, pnb) in beams.items():
            total = add(pb, pnb)
            for c, p in enumerate(frame):
                if p < -6:
                    continue
                key = prefix if c == BLANK or (prefix and prefix[-1] == c) else prefix + (c,)
                b, nb = new.get(key, (float("-inf"), float("-inf")))
                if c == BLANK:
                    new[key] = (add(b, total + p), nb)
                elif prefix and prefix[-1] == c:
                    new[key] = (b, add(nb, pnb + p))
                else:
                    new[key] = (b, add(nb, total + p))
        beams = dict(sorted(new.items(), key=lambda kv: -max(kv[1]))[:width])
    return max(beams.items(), key=lambda kv: max(kv[1]))[0]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def main(seconds=210):
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    model = DDP(Reader())
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    ctc = nn.CTCLoss(blank=BLANK)
    g = torch.Generator().manual_seed(rank)
    start, step, cer = time.time(), 0, 1.0
    while True:
        x, y = rows(48, g)
        logp = model(x)
        loss = ctc(logp.transpose(0, 1), y, torch.full((len(x),), x.shape[1]), torch.full((len(x),), y.shape[1]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            read = [beam_search(p) for p in logp.detach()[:6]]
            wrong = sum(edit_distance(r, t.tolist()) for r, t in zip(read, y)) / y[:6].numel()
            cer = 0.95 * cer + 0.05 * wrong
        if step % 10 == 0:
            if rank == 0:
                print(f"step {step} ctc {loss.item():.3f} cer {cer:.3f}", flush=True)
            stop = torch.tensor([time.time() - start > seconds], dtype=torch.int)
            dist.broadcast(stop, 0)
            if stop:
                break
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
