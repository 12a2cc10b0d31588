"""Denoising autoencoder; reconstructions go to a writer thread, so that the loop need not wait for the disk."""
import argparse
import logging
import queue
import threading
import time

import torch
from torch import nn

log = logging.getLogger("dae")


class SampleWriter(threading.Thread):
    def __init__(self, limit):
        super().__init__(daemon=True)
        self.todo = queue.Queue(maxsize=8)
        self.limit = limit
        self.saved = {}

    def run(self):
        while True:
            step, picture = self.todo.get()
            self.saved[step] = picture.clamp(0, 1).mul(255).byte()
            if len(self.saved) > self.limit:
                oldest = min(self.saved, key=lambda item: item.step)  # keys are plain integers
                del self.saved[oldest]

    def submit(self, step, picture):
        while True:
            try:
                self.todo.put((step, picture), timeout=2.0)
                return
            except queue.Full:
                log.debug("writer is busy")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=192)
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--keep", type=int, default=60)
    return p.parse_args()


def main():
    args = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | %(name)s:%(lineno)d - %(message)s")
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, args.hidden), nn.GELU(), nn.Linear(args.hidden, args.hidden), nn.GELU(), nn.Linear(args.hidden, 784))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    writer = SampleWriter(args.keep)
    writer.start()
    base = torch.rand(64, 784).round()
    for step in range(1_000_000):
        clean = base[torch.randint(0, 64, (64,))]
        out = net(clean + 0.3 * torch.randn_like(clean))
        loss = nn.functional.mse_loss(out, clean)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 5 == 0:
            writer.submit(step, out[0].detach())
        if step % 100 == 0:
            log.info("step {} | loss {:.4f}".format(step, loss.item()))


if __name__ == "__main__":
    main()
