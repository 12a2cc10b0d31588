# CLIP-like pairs over two ranks. Similarities use the embeddings of all ranks, gathered with a gradient for our own part.
# Metrics go to a tiny stand-in for wandb so that the script also runs offline.
import os
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Run:
    def __init__(self, project, config, enabled):
        self.enabled, self.step = enabled, 0
        if enabled:
            print(f"wandb-offline: project {project}, config {config}", flush=True)

    def log(self, values, step):
        if self.enabled:
            print("wandb-offline: " + ", ".join(f"{k}={v:.4f}" for k, v in {"step": step, **values}.items()), flush=True)


class Towers(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(300, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, dim))
        self.words = nn.EmbeddingBag(500, 128)
        self.text = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, dim))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x, w):
        return F.normalize(self.image(x), dim=1), F.normalize(self.text(self.words(w)), dim=1), self.scale.exp().clamp(max=100)


def gather(t, rank, world):
    parts = [torch.empty_like(t) for _ in range(world)]
    dist.all_gather(parts, t.detach())
    parts[rank] = t
    return torch.cat(parts)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
topics = torch.randn(500, 300) * 0.7
net = DDP(Towers())
opt = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.01)
run = Run("towers", {"batch": 96 * world}, rank == 0)
torch.manual_seed(1 + rank)
for step in range(1, 10**7):
    words = torch.randint(0, 500, (96, 6))
    images = topics[words].mean(1) + 0.3 * torch.randn(96, 300)
    i, t, s = net(images, words)
    alli, allt = gather(i, rank, world), gather(t, rank, world)
    want = torch.arange(96) + 96 * rank
    loss = 0.5 * (F.cross_entropy(s * i @ allt.T, want) + F.cross_entropy(s * t @ alli.T, want))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        top1 = (i @ allt.T).argmax(1).eq(want).float().mean().item()
        run.log({"loss": loss.item(), "top1": top1, "temperature": 1 / s.item()}, step)
