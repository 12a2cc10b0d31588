"""Keyword spotting: a wide teacher and a thin student."""
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

KEYWORDS = 12


def words(n, gen):
    t = torch.arange(400) / 400
    y = torch.randint(0, KEYWORDS, (n,), generator=gen)
    f = 4 + 3 * y[:, None].float()
    wave = torch.sin(6.283 * f * t + 6.283 * torch.rand(n, 1, generator=gen)) + 1.5 * torch.randn(n, 400, generator=gen)
    return wave[:, None], y


def net(w):
    return nn.Sequential(
        nn.Conv1d(1, w, 31, 2, 15), nn.BatchNorm1d(w), nn.ReLU(),
        nn.Conv1d(w, 2 * w, 9, 2, 4), nn.BatchNorm1d(2 * w), nn.ReLU(),
        nn.Conv1d(2 * w, 2 * w, 9, 2, 4), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(8 * w, KEYWORDS),
    )


def train_teacher(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(net(48))
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    gen = torch.Generator().manual_seed(rank)
    for i in range(args.iters):
        x, y = words(48, gen)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0 and rank == 0:
            print(f"[teacher] iter {i} loss {loss.item():.3f}", flush=True)
    if rank == 0:
        torch.save({"state_dict": model.state_dict(), "iters": args.iters}, args.out)
    dist.destroy_process_group()


def train_student(args):
    torch.manual_seed(1)
    teacher = net(48).eval()
    ckpt = torch.load(args.teacher, map_location="cpu")
    msg = teacher.load_state_dict(ckpt["state_dict"], strict=False)
    print(f"[student] teacher from {args.teacher} ({ckpt['iters']} iters): {msg}", flush=True)
    student = net(12)
    opt = torch.optim.Adam(student.parameters(), 2e-3)
    gen = torch.Generator().manual_seed(7)
    for i in range(10**7):
        x, y = words(48, gen)
        with torch.no_grad():
            soft = (teacher(x) / args.T).softmax(1)
        out = student(x)
        kd = F.kl_div((out / args.T).log_softmax(1), soft, reduction="batchmean") * args.T**2
        loss = args.alpha * kd + (1 - args.alpha) * F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            with torch.no_grad():
                tx, ty = words(200, gen)
                acc_t = (teacher(tx).argmax(1) == ty).float().mean().item()
                acc_s = (student(tx).argmax(1) == ty).float().mean().item()
            print(f"[student] iter {i} loss {loss.item():.3f} teacher acc {acc_t:.2f} student acc {acc_s:.2f}", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(dest="role", required=True)
    t = sub.add_parser("teacher")
    t.add_argument("--out", required=True)
    t.add_argument("--iters", type=int, default=3000)
    s = sub.add_parser("student")
    s.add_argument("--teacher", required=True)
    s.add_argument("--alpha", type=float, default=0.9)
    s.add_argument("--T", type=float, default=2.0)
    args = ap.parse_args()
    train_teacher(args) if args.role == "teacher" else train_student(args)
