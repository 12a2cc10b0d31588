"""Surrogate for AC power flow. torchrun --nproc-per-node=2 power_flow.py [config.yaml]"""
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(cfg, buses):
    layers, d = [], 2 * buses
    for _ in range(cfg["layers"]):
        layers += [nn.Linear(d, cfg["hidden"]), nn.SiLU()]
        d = cfg["hidden"]
    return nn.Sequential(*layers, nn.Linear(d, buses))


def main(path):
    cfg = yaml.safe_load(Path(path).read_text())
    torch.set_num_threads(cfg["runtime"]["threads"])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    buses = 118
    gen = torch.Generator().manual_seed(0)
    zones, grid = torch.randn(2 * buses, 6, generator=gen) / 15, torch.randn(6, buses, generator=gen) / 2
    net = DDP(build(cfg["model"], buses))
    opt = torch.optim.Adam(net.parameters(), lr=cfg["optim"]["lr"])
    began = time.time()
    for it in range(10**6):
        x = torch.randn(cfg["optim"]["batch"], 2 * buses)
        y = torch.sin(x @ zones) @ grid + 0.02 * torch.randn(len(x), buses)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and it % 10 == 0:
            print(f"iter {it} loss {loss.item():.5f} elapsed {time.time() - began:.1f}", flush=True)
        if it % 20 == 0:
            t = torch.tensor([time.time() - began])
            dist.broadcast(t, 0)
            if t.item() > cfg["runtime"]["seconds"]:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_suffix(".yaml"))
