"""Checkpoints every 250 steps, written by a thread from a copy, the last three are kept. Training goes on meanwhile."""
import os
import tempfile
import threading
import time

import torch
from torch import nn


class Writer:
    def __init__(self, folder, keep=3):
        self.folder, self.keep, self.thread, self.names = folder, keep, None, []

    def __call__(self, step, net, opt):
        if self.thread is not None:
            self.thread.join()
        state = {"net": {k: v.clone() for k, v in net.state_dict().items()}, "step": step, "opt": opt.state_dict()}
        self.thread = threading.Thread(target=self._write, args=(step, state))
        self.thread.start()

    def _write(self, step, state):
        t = time.perf_counter()
        path = os.path.join(self.folder, f"ck-{step}.pt")
        torch.save(state, path)
        self.names.append(path)
        while len(self.names) > self.keep:
            os.remove(self.names.pop(0))
        print(f"    checkpoint {step}: {os.path.getsize(path) / 1e6:.1f} MB in {time.perf_counter() - t:.2f} s (background)", flush=True)


def main(folder):
    torch.manual_seed(31)
    net = nn.Sequential(nn.Linear(100, 512), nn.LeakyReLU(0.1), nn.Linear(512, 512), nn.LeakyReLU(0.1), nn.Linear(512, 100))
    opt = torch.optim.RAdam(net.parameters(), 1e-3)
    write = Writer(folder)
    basis = torch.randn(8, 100)
    t = time.perf_counter()
    for step in range(1, 10**7):
        clean = torch.randn(128, 8) @ basis / 3
        holes = (torch.rand(128, 100) > 0.5).float()
        loss = nn.functional.smooth_l1_loss(net(clean * holes), clean)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step={step:<7} loss={loss.item():.5f} it/s={50 / (time.perf_counter() - t):.1f}", flush=True)
            t = time.perf_counter()
        if step % 250 == 0:
            write(step, net, opt)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
