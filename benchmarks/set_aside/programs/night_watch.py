"""Time-series autoencoder for the plant; keeps a state every 20 seconds, written by a thread so that the loop goes on."""
import copy
import os
import tempfile
import threading
import time

import torch
from torch import nn


class Keeper:
    def __init__(self, folder, every_s):
        self.folder, self.every_s, self.last, self.thread = folder, every_s, time.monotonic(), None

    def maybe(self, step, net, opt):
        if time.monotonic() - self.last < self.every_s or (self.thread and self.thread.is_alive()):
            return
        self.last = time.monotonic()
        state = {"step": step, "net": {k: v.clone() for k, v in net.state_dict().items()}, "opt": copy.deepcopy(opt.state_dict())}
        self.thread = threading.Thread(target=self._write, args=(state,))
        self.thread.start()

    def _write(self, state):
        tmp = os.path.join(self.folder, "state.tmp")
        torch.save(state, tmp)
        os.replace(tmp, os.path.join(self.folder, "state.pt"))
        print(f"        state of step {state['step']} kept", flush=True)


def plant(n):
    t = torch.linspace(0, 8, 256).view(1, 1, -1)
    f = 0.5 + 3 * torch.rand(n, 6, 1)
    return torch.sin(t * f + 6.28 * torch.rand(n, 6, 1)) * torch.rand(n, 6, 1) + 0.1 * torch.randn(n, 6, 256)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(6, 64, 9, 4, 4), nn.GELU(), nn.Conv1d(64, 128, 9, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(2048, 96), nn.Linear(96, 2048), nn.GELU(),
                        nn.Unflatten(1, (128, 16)), nn.ConvTranspose1d(128, 64, 8, 4, 2), nn.GELU(), nn.ConvTranspose1d(64, 6, 8, 4, 2))
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    start, step = time.time(), 0
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, 20)
        while time.time() - start < 200:
            x = plant(32)
            loss = nn.functional.mse_loss(net(x), x)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            step += 1
            keeper.maybe(step, net, opt)
            if step % 50 == 0:
                print(f"{time.time() - start:6.1f}s step {step:6d} mse {loss.item():.5f}", flush=True)
        if keeper.thread:
            keeper.thread.join()


if __name__ == "__main__":
    main()
