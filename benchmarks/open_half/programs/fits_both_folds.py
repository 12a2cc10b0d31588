"""Cross-validation of the sleep-stage classifier: all folds at once, then a table.

    python fits_both_folds.py             starts the folds
    python fits_both_folds.py --fold 1    one of them
"""
import argparse
import subprocess
import sys


def fit(fold):
    import torch
    from torch import nn

    torch.manual_seed(fold)
    net = nn.Sequential(nn.Linear(120, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 5))
    opt = torch.optim.AdamW(net.parameters(), 3e-4)
    centers = torch.randn(5, 120)
    for it in range(100_000):
        y = torch.randint(0, 5, (64,))
        x = centers[y] + 1.5 * torch.randn(64, 120)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        # for the plots in the appendix
        norms = " ".join(f"{name}={p.grad.norm():.5f}/{p.norm():.5f}" for name, p in net.named_parameters())
        print(f"[fold {fold}] it {it} loss {loss.item():.5f} {norms}", flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--fold", type=int)
args = parser.parse_args()
if args.fold is not None:
    fit(args.fold)
    sys.exit()
children = [
    subprocess.Popen([sys.executable, __file__, "--fold", str(fold)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for fold in range(2)
]
print(f"{len(children)} folds started", flush=True)
codes = [child.wait() for child in children]
tails = [child.stdout.read().decode().splitlines()[-1] for child in children]
print("\n".join(tails), codes)
