"""Ozone column regression; small reports now and then, a checkpoint a quarter minute, garbage by hand."""
import gc
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn


def f1(pred, gold):
    tp = sum(1 for p, g in zip(pred, gold) if p and g)
    return 2 * tp / max(1, sum(pred) + sum(gold))


def evaluate(net, n=4):
    net.eval()
    with torch.no_grad():
        x = torch.randn(n, 64, 128)
        pred = (net(x).mean(-1) > 0).flatten().tolist()
    net.train()
    return f1(pred, (x.mean(-1) > 0).flatten().tolist())


def main(folder):
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(128, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU(), nn.Linear(384, 128))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    last, step, history = time.time(), 0, []
    while True:
        step += 1
        x = torch.randn(32, 64, 128)
        loss = F.mse_loss(net(x), x.flip(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            history.append(round(loss.item(), 5))
            print(f"step {step} loss {history[-1]}", flush=True)
        if step % 400 == 0:
            gc.collect()
            print(f"  f1 {evaluate(net):.3f}", flush=True)
        if time.time() - last > 15:
            torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, os.path.join(folder, "last.pt"))
            with open(os.path.join(folder, "history.json"), "w") as f:
                json.dump(history, f)
            subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True)
            last = time.time()


with tempfile.TemporaryDirectory() as folder:
    main(folder)
