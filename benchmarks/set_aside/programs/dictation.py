"""Dictation: frames to letters (CTC) with accumulation, two cards; torchrun."""
import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Spoken(Dataset):
    def __init__(self, n=3000, letters=18):
        g = torch.Generator().manual_seed(0)
        self.tone = torch.randn(letters + 1, 20, generator=g)
        self.text = torch.randint(1, letters + 1, (n, 6), generator=g)

    def __len__(self):
        return len(self.text)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = self.tone[self.text[i]].repeat_interleave(6, 0)
        return x + 0.5 * torch.randn(36, 20, generator=g), self.text[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(20, 96, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(192, 19)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--seconds", type=float, default=200)
    a = p.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = Spoken()
    sampler = DistributedSampler(data, seed=4)
    loader = DataLoader(data, 12, sampler=sampler, drop_last=True)
    net = DDP(Net())
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    ctc = nn.CTCLoss()
    began, updates = time.time(), 0
    for epoch in range(1000):
        sampler.set_epoch(epoch)
        usable = len(loader) // a.accumulate * a.accumulate
        for i, (x, y) in enumerate(loader):
            if i == usable:
                break
            final = (i + 1) % a.accumulate == 0
            with contextlib.nullcontext() if final else net.no_sync():
                out = net(x).transpose(0, 1)
                loss = ctc(out, y, torch.full((len(x),), 36), torch.full((len(x),), 6)) / a.accumulate
                loss.backward()
            if final:
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                opt.step()
                opt.zero_grad()
                updates += 1
                if updates % 10 == 0 and rank == 0:
                    print(f"update {updates} epoch {epoch} loss {loss.item() * a.accumulate:.4f}", flush=True)
        t = torch.tensor([time.time() - began])
        dist.broadcast(t, 0)
        if t.item() > a.seconds:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
