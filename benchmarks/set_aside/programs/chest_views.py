"""Chest X-rays, two hospitals, one per card (the images may not leave their share). DDP over both."""
import csv
import io
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FINDINGS = ["none", "effusion", "nodule", "edema", "fracture", "device"]
HEADERS = {0: ["id", "view", "label"], 1: ["id", "label", "view"]}


def hospital(k, n=1500):
    """The index of one hospital, and its images"""
    g = torch.Generator().manual_seed(50 + k)
    label = torch.randint(0, len(FINDINGS), (n,), generator=g)
    view = torch.randint(0, len(FINDINGS), (n,), generator=g)
    text = io.StringIO()
    w = csv.writer(text)
    for i in range(n):
        row = {"id": i, "view": int(view[i]), "label": int(label[i])}
        w.writerow([row[h] for h in HEADERS[k]])
    img = torch.randn(n, 1, 36, 36, generator=g)
    for i, l in enumerate(label.tolist()):
        img[i, 0, 6 * l : 6 * l + 6, 4:30] += 0.7
    return text.getvalue(), img


def read_index(text):
    return torch.tensor([int(row[2]) for row in csv.reader(io.StringIO(text))])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    index, img = hospital(rank)
    labels = read_index(index)
    net = DDP(nn.Sequential(nn.Conv2d(1, 24, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(48 * 36, 64), nn.ReLU(), nn.Linear(64, 6)))
    opt = torch.optim.AdamW(net.parameters(), 5e-4, weight_decay=0.05)
    t0, step = time.time(), 0
    while True:
        idx = torch.randint(0, len(labels), (32,))
        x = img[idx] + 0.3 * torch.randn(32, 1, 36, 36)
        loss = nn.functional.cross_entropy(net(x), labels[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 20 == 0:
            if rank == 0:
                print(f"{step} loss={loss.item():.4f} t={time.time() - t0:.0f}", flush=True)
            t = torch.tensor([time.time() - t0])
            dist.broadcast(t, 0)
            if t.item() > 210:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
