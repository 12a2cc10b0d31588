"""Wood species from end-grain pictures: first a teacher, then a small student for the saw's controller. Accelerate."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

SPECIES = 8


def end_grain(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(SPECIES, (n,), generator=g)
    pos = torch.arange(32).float()
    cy, cx = -10 + 52 * torch.rand(2, n, generator=g)
    r = ((pos[None, :, None] - cy[:, None, None]) ** 2 + (pos[None, None] - cx[:, None, None]) ** 2).sqrt()
    pitch = 2.5 + 0.6 * y.float()[:, None, None] + 0.15 * torch.randn(n, 1, 1, generator=g)
    x = torch.sin(2 * torch.pi * r / pitch) + 0.5 * torch.randn(n, 32, 32, generator=g)
    y = torch.where(torch.rand(n, generator=g) < 0.06, torch.randint(SPECIES, (n,), generator=g), y)
    return TensorDataset(x[:, None], y)


def network(w):
    return nn.Sequential(
        nn.Conv2d(1, w, 5, padding=2), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.BatchNorm2d(2 * w), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(2 * w, SPECIES),
    )


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return hits / len(loader.dataset)


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    train = DataLoader(end_grain(12000, 0), batch_size=32, shuffle=True, drop_last=True)
    val = DataLoader(end_grain(500, 1), batch_size=100)
    teacher, student = network(40), network(16)
    opt_t = torch.optim.AdamW(teacher.parameters(), lr=1e-3)
    opt_s = torch.optim.AdamW(student.parameters(), lr=1e-3)
    train, val, teacher, student, opt_t, opt_s = accelerator.prepare(train, val, teacher, student, opt_t, opt_s)

    print("== teacher ==", flush=True)
    for epoch in range(2):
        for i, (x, y) in enumerate(train):
            loss = F.cross_entropy(teacher(x), y)
            opt_t.zero_grad()
            accelerator.backward(loss)
            opt_t.step()
            if i % 25 == 0:
                print(f"teacher {epoch}/{i} loss {loss.item():.4f}", flush=True)
        print(f"teacher acc {accuracy(teacher, val):.3f}", flush=True)

    print("== student ==", flush=True)
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)
    heat = 3.0
    for epoch in range(25):
        for i, (x, y) in enumerate(train):
            with torch.no_grad():
                soft = F.softmax(teacher(x) / heat, 1)
            out = student(x)
            kd = F.kl_div(F.log_softmax(out / heat, 1), soft, reduction="batchmean") * heat**2
            loss = 0.8 * kd + 0.2 * F.cross_entropy(out, y)
            opt_s.zero_grad()
            accelerator.backward(loss)
            opt_s.step()
            if i % 25 == 0:
                print(f"student {epoch}/{i} loss {loss.item():.4f} kd {kd.item():.4f}", flush=True)
        print(f"student acc {accuracy(student, val):.3f}", flush=True)


if __name__ == "__main__":
    main()
