"""DDP training of an MLP-mixer-ish thing with logging of weight and gradient histograms (my SummaryWriter replacement)."""
import json
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Writer:
    def __init__(self, logdir):
        os.makedirs(logdir, exist_ok=True)
        self.f = open(os.path.join(logdir, "events.jsonl"), "w")

    def add_scalar(self, tag, v, step):
        self.f.write(json.dumps({"t": tag, "v": v, "s": step}) + "\n")

    def add_histogram(self, tag, t, step, bins=24):
        t = t.detach().float().flatten()
        q = torch.sort(t).values[:: max(1, t.numel() // bins)]
        h = torch.histc(t, bins)
        self.f.write(json.dumps({"t": tag, "h": h.tolist(), "q": q.tolist(), "s": step}) + "\n")


class Block(nn.Module):
    def __init__(self, p, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tok = nn.Sequential(nn.Linear(p, 2 * p), nn.GELU(), nn.Linear(2 * p, p))
        self.ch = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ch(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, p=16, d=192, depth=4):
        super().__init__()
        self.inp = nn.Linear(48, d)
        self.blocks = nn.Sequential(*[Block(p, d) for _ in range(depth)])
        self.out = nn.Linear(d, 10)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x)).mean(1))


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(rank)
    net = DistributedDataParallel(Mixer())
    opt = torch.optim.AdamW(net.parameters(), 5e-4)
    proto = torch.randn(10, 16, 48, generator=torch.Generator().manual_seed(0))
    writer = Writer(os.path.join(tempfile.gettempdir(), "mixer-tb")) if rank == 0 else None
    step = 0
    for epoch in range(1000):
        for _ in range(100):
            y = torch.randint(0, 10, (16,))
            x = proto[y] * 0.5 + torch.randn(16, 16, 48)
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            if writer:
                writer.add_scalar("loss", loss.item(), step)
                for name, p in net.named_parameters():
                    writer.add_histogram("weights/" + name, p, step)
                    writer.add_histogram("grads/" + name, p.grad, step)
            opt.step()
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
