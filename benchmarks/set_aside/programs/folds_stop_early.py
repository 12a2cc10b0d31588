"""Six folds, two at a time, each on its card; a fold ends when its validation loss has not improved five times.

    python folds_stop_early.py            all folds
    python folds_stop_early.py --fold 3   one of them
"""
import argparse
import os
import subprocess
import sys
import time


def one(fold, patience):
    import torch
    from torch import nn

    torch.manual_seed(0)
    x = torch.randn(3000, 300)
    y = (x[:, :20].sum(1, keepdim=True) + x[:, 20:40].pow(2).sum(1, keepdim=True) - 20) / 8 + 0.5 * torch.randn(3000, 1)
    part = torch.arange(3000) % 6
    tx, ty, vx, vy = x[part != fold], y[part != fold], x[part == fold], y[part == fold]
    torch.manual_seed(fold)
    net = nn.Sequential(nn.Linear(300, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-4, weight_decay=1e-5)
    best, bad = 1e9, 0
    for epoch in range(1000):
        for i in torch.randperm(len(tx)).split(16):
            loss = nn.functional.mse_loss(net(tx[i]), ty[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            v = nn.functional.mse_loss(net(vx), vy).item()
        best, bad = (v, 0) if v < best else (best, bad + 1)
        print(f"fold {fold} epoch {epoch} train {loss.item():.4f} val {v:.4f} best {best:.4f}", flush=True)
        if bad == patience:
            print(f"fold {fold}: early stop at epoch {epoch}", flush=True)
            break


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--fold", type=int)
    ap.add_argument("--patience", type=int, default=5)
    ap.add_argument("--repeats", type=int, default=20)
    args = ap.parse_args()
    if args.fold is not None:
        one(args.fold, args.patience)
        return
    free, running = [0, 1], {}
    queue = [f for _ in range(args.repeats) for f in range(6)]
    while queue or running:
        while free and queue:
            card, fold = free.pop(), queue.pop(0)
            env = {**os.environ, "GPUTOP_VIRTUAL_DEVICES": str(card)}
            running[subprocess.Popen([sys.executable, "-u", __file__, "--fold", str(fold), "--patience", str(args.patience)], env=env)] = card
        for p in [p for p in running if p.poll() is not None]:
            free.append(running.pop(p))
        time.sleep(0.5)
    print("all folds done")


if __name__ == "__main__":
    main()
