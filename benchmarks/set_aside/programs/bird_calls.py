"""Bird calls with Accelerate; resumes from the last state if there is one (the nodes are taken away at night)."""
import argparse
import os
import tempfile
import time

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--out", default=None)
parser.add_argument("--save-every", type=int, default=40)
parser.add_argument("--limit", type=float, default=210)
args = parser.parse_args()


def main():
    acc = Accelerator(cpu=True)
    set_seed(7)
    out = args.out or os.path.join(tempfile.gettempdir(), f"birds-{os.environ.get('MASTER_PORT', '0')}")
    os.makedirs(out, exist_ok=True)
    last = os.path.join(out, "last.pt")
    y = torch.randint(0, 15, (3000,))
    f = torch.arange(32).view(1, 1, 32, 1)
    x = torch.exp(-((f - 2 * y.view(-1, 1, 1, 1)) ** 2) / 8.0) + 0.8 * torch.randn(3000, 1, 32, 40)
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True, drop_last=True)
    net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48 * 16 * 20, 64), nn.ReLU(), nn.Linear(64, 15))
    opt = torch.optim.AdamW(net.parameters(), 5e-4)
    net, opt, loader = acc.prepare(net, opt, loader)
    if os.path.exists(last):
        acc.unwrap_model(net).load_state_dict(torch.load(last)["model"])
        acc.print("resumed from", last)
    began, step = time.time(), 0
    for epoch in range(1000):
        for bx, by in loader:
            loss = nn.functional.cross_entropy(net(bx), by)
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
            step += 1
            if step % 10 == 0:
                acc.print(f"step {step} loss {loss.item():.4f} ({time.time() - began:.0f}s)", flush=True)
            if step % args.save_every == 0:
                torch.save({"model": acc.unwrap_model(net).state_dict(), "step": step}, last)
        if acc.gather(torch.tensor([time.time() - began])).max().item() > args.limit:
            break
    acc.wait_for_everyone()
    if acc.is_main_process and os.path.exists(last):
        os.remove(last)
    acc.end_training()


if __name__ == "__main__":
    main()
