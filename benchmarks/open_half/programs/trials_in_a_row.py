"""Tries learning rates for the speech denoiser one after the other and picks the best one.

    python trials_in_a_row.py            all trials
    python trials_in_a_row.py --lr 0.01  one of them
"""
import argparse
import json
import subprocess
import sys

LRS = (3e-2, 1e-2, 3e-3, 1e-3)


def trial(lr, steps):
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(1, 16, 25, padding=12), nn.LeakyReLU(0.1), nn.Conv1d(16, 16, 25, padding=12), nn.LeakyReLU(0.1),
        nn.Conv1d(16, 1, 25, padding=12),
    )
    opt = torch.optim.SGD(net.parameters(), lr, momentum=0.9)
    t = torch.arange(800) / 100
    best = 1e9
    for step in range(steps):
        clean = torch.sin(t * (1 + 5 * torch.rand(8, 1, 1))) * torch.rand(8, 1, 1)
        noisy = clean + 0.3 * torch.randn_like(clean)
        loss = nn.functional.mse_loss(net(noisy), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        norm = sum(p.grad.norm() ** 2 for p in net.parameters()) ** 0.5
        best = min(best, loss.item())
        print(json.dumps({"step": step, "lr": lr, "loss": loss.item(), "grad_norm": norm.item(), "best": best}), flush=True)
    return best


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float)
    ap.add_argument("--steps", type=int, default=3000)
    args = ap.parse_args()
    if args.lr is not None:
        trial(args.lr, args.steps)
        return
    results = {}
    for lr in LRS:
        print(f"trial lr={lr} ...", flush=True)
        p = subprocess.Popen([sys.executable, __file__, "--lr", str(lr), "--steps", str(args.steps)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        p.wait()
        lines = p.stdout.read().splitlines()
        results[lr] = json.loads(lines[-1])["best"]
        print(f"trial lr={lr}: {results[lr]:.5f}", flush=True)
    print("best:", min(results, key=results.get))


if __name__ == "__main__":
    main()
