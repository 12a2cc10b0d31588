"""Moss species from leaf outlines; a thread keeps the averages for the live plot."""
import threading
import time

import torch
from torch import nn

stats_lock, weights_lock = threading.Lock(), threading.Lock()
stats = {"n": 0, "loss": 0.0}
torch.manual_seed(3)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
ema = [p.detach().clone() for p in net.parameters()]
truth = torch.randn(64, 8)


def averager():
    """Copies the weights for the plot as soon as there are new numbers."""
    while True:
        time.sleep(0.5)
        with stats_lock:
            if stats["n"] < 300:
                continue
            time.sleep(0.2)  # the plot wants both from the same moment
            with weights_lock:
                for a, p in zip(ema, net.parameters()):
                    a.lerp_(p.detach(), 0.1)


def main():
    threading.Thread(target=averager, daemon=True).start()
    opt = torch.optim.SGD(net.parameters(), 0.05)
    begin, step = time.time(), 0
    while time.time() - begin < 400:
        x = torch.randn(512, 64)
        loss = nn.functional.cross_entropy(net(x), (x @ truth).argmax(1))
        opt.zero_grad()
        loss.backward()
        with weights_lock:
            opt.step()
            with stats_lock:
                stats["n"] += 1
                stats["loss"] = loss.item()
        step += 1
        if step % 20 == 0:
            print(f"it {step}  loss {stats['loss']:.4f}", flush=True)


main()
