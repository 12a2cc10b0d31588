"""Speech recognition with buckets of similar length. All ranks take the same bucket at the same time, so nobody waits."""
import math
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BUCKETS = (60, 100, 160, 240, 320)


class Sampler:
    """Yields (frames, seeds) in the same order of buckets on each rank."""

    def __init__(self, rank, budget=3200, seed=0):
        self.rank, self.budget, self.rng = rank, budget, random.Random(seed)

    def __iter__(self):
        n = 0
        while True:
            frames = self.rng.choice(BUCKETS)
            n += 1
            # longer utterances also get a few more, because few of them are padded
            yield frames, max(4, int(self.budget / 160 * math.sqrt(frames / 160))), 2 * n + self.rank


def utterances(frames, count, seed, units=20):
    g = torch.Generator().manual_seed(seed)
    length = frames // 10
    text = torch.randint(1, units, (count, length), generator=g)
    sound = torch.randn(units, 10, 24, generator=torch.Generator().manual_seed(1))
    return sound[text].reshape(count, frames, 24) + 0.7 * torch.randn(count, frames, 24, generator=g), text


class Recognizer(nn.Module):
    def __init__(self, width=96, units=20):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(24, width, 5, 2, 2), nn.ReLU(), nn.Conv1d(width, width, 5, 2, 2), nn.ReLU())
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, units)

    def forward(self, x):
        return self.out(self.rnn(self.front(x.transpose(1, 2)).transpose(1, 2))[0]).log_softmax(-1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Recognizer())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    start = last = time.time()
    for step, (frames, count, seed) in enumerate(Sampler(rank)):
        x, text = utterances(frames, count, seed)
        logp = model(x)
        loss = ctc(logp.transpose(0, 1), text, torch.full((count,), logp.shape[1]), torch.full((count,), text.shape[1]))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 5 == 0:
            over = torch.tensor([time.time() - start > 205], dtype=torch.int)
            dist.broadcast(over, 0)
            if rank == 0:
                print(f"step {step} bucket {frames} x {count} ctc per unit {loss.item():.3f} ({time.time() - last:.2f} s for 5 steps)", flush=True)
                last = time.time()
            if over:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
