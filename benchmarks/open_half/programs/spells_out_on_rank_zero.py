"""CTC on synthetic phones: torchrun --nproc-per-node=2 spells_out_on_rank_zero.py"""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

PHONES = 40


class Recognizer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, PHONES))

    def forward(self, frames):
        return self.net(frames).log_softmax(-1)


def greedy(row):
    said, last = [], 0
    for p in row:
        if p != last and p != 0:
            said.append(p)
        last = p
    return said


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    torch.manual_seed(3)
    codes = torch.randn(PHONES, 64)
    model = DDP(Recognizer())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(10**6):
        target = torch.randint(1, PHONES, (24, 60), generator=g)
        frames = codes[target.repeat_interleave(2, 1)] + torch.randn(24, 120, 64, generator=g)
        out = model(frames)
        loss = F.ctc_loss(out.transpose(0, 1), target, torch.full((24,), 120), torch.full((24,), 60))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            wrong = sum(distance(greedy(row), gold) for row, gold in zip(out.argmax(-1).tolist(), target.tolist()))
            if step % 10 == 0:
                print(f"step {step:5d} loss {loss.item():.3f} per {wrong / target.numel():.3f}", flush=True)


main()
