import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class YardFrames(Dataset):
    """Frames of the yard camera: is a truck in the cell?"""

    def __init__(self, n, size=64, grid=8):
        self.n, self.size, self.grid = n, size, grid

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.rand(3, self.size, self.size, generator=g) * 0.3
        heat = torch.zeros(self.grid, self.grid)
        for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
            r, c = torch.randint(0, self.grid, (2,), generator=g).tolist()
            s = self.size // self.grid
            img[:, r * s:(r + 1) * s, c * s:(c + 1) * s] += 0.08
            heat[r, c] = 1
        return img, heat


def build_net():
    def c(i, o, s):
        return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.ReLU(inplace=True))
    return nn.Sequential(c(3, 32, 2), c(32, 64, 2), c(64, 96, 2), c(96, 96, 1), nn.Conv2d(96, 1, 1))


def is_main():
    return dist.get_rank() == 0


def save_checkpoint(path, model, opt, step):
    tmp = path + ".part"
    torch.save({"model": model.module.state_dict(), "opt": opt.state_dict(), "step": step}, tmp)
    os.replace(tmp, path)
    dist.barrier()


def run(a):
    cuda = torch.cuda.is_available()
    dist.init_process_group(backend="nccl" if cuda else "gloo")
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    torch.manual_seed(0)
    net = DistributedDataParallel(build_net().to(device), device_ids=[local] if cuda else None)
    opt = torch.optim.SGD(net.parameters(), lr=a.lr, momentum=0.9)
    ds = YardFrames(a.frames)
    sampler = DistributedSampler(ds, shuffle=True)
    dl = DataLoader(ds, batch_size=a.batch, sampler=sampler)
    out = a.out or os.path.join(tempfile.gettempdir(), f"yard_{os.getpid()}.pt")
    if is_main():
        print(f"world {dist.get_world_size()}, {len(ds)} frames, {len(dl)} batches per rank, checkpoint {out}", flush=True)
    step = 0
    for epoch in range(a.epochs):
        sampler.set_epoch(epoch)
        for img, heat in dl:
            loss = F.binary_cross_entropy_with_logits(net(img.to(device)).squeeze(1), heat.to(device),
                                                      pos_weight=torch.tensor(10.0, device=device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 10 == 0 and is_main():
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if step % a.save_every == 0 and is_main():
                save_checkpoint(out, net, opt, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=20000)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--save-every", type=int, default=400)
    p.add_argument("--out")
    run(p.parse_args())
