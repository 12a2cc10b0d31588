"""Tabular VAE, two ranks by mp.spawn; gradients averaged by hand."""
import os, sys
import yaml, torch
import torch.multiprocessing as mp
import torch.distributed as dist
from torch import nn


class VAE(nn.Module):
    def __init__(self, d=40, h=640, z=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        mu, lv = self.enc(x).chunk(2, -1)
        out = self.dec(mu + torch.randn_like(mu) * (lv / 2).exp())
        return (out - x).pow(2).sum(-1).mean() + 0.5 * (mu**2 + lv.exp() - lv - 1).sum(-1).mean()


def worker(rank, cfg):
    torch.set_num_threads(cfg["runtime"]["cpu_threads"])
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ.get('PORT', 29544)}", rank=rank, world_size=cfg["runtime"]["world"])
    torch.manual_seed(3)
    model = VAE()
    opt = torch.optim.Adam(model.parameters(), cfg["optim"]["lr"])
    torch.manual_seed(30 + rank)
    basis = torch.linspace(-1, 1, 160).view(4, 40)
    for epoch in range(10**6):
        total = 0.0
        for _ in range(20):
            x = torch.randn(cfg["optim"]["batch"], 4) @ basis
            loss = model(x)
            opt.zero_grad()
            loss.backward()
            flat = torch.cat([p.grad.view(-1) for p in model.parameters()])
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
            at = 0
            for p in model.parameters():
                p.grad.copy_(flat[at : at + p.numel()].view_as(p)); at += p.numel()
            opt.step()
            total += loss.item()
        if rank == 0:
            print(f"epoch {epoch}: elbo loss {total / 20:.4f}", flush=True)


if __name__ == "__main__":
    config = yaml.safe_load(open(sys.argv[1]))
    mp.spawn(worker, (config,), nprocs=config["runtime"]["world"])
