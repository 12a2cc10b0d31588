"""Super-resolution of simulated flow. Patches are cut by a thread, so that the network never waits."""
import queue
import threading
import time

import torch
from tqdm import tqdm
from torch import nn


class Cutter(threading.Thread):
    def __init__(self, fields, batch, size):
        super().__init__(daemon=True)
        self.fields, self.batch, self.size = fields, batch, size
        self.ready, self.over = queue.Queue(), False

    def run(self):
        n, _, h, w = self.fields.shape
        g = torch.Generator().manual_seed(1)
        while not self.over:
            pick = torch.randint(0, n, (self.batch,), generator=g).tolist()
            top, left = torch.randint(0, h - self.size, (2, self.batch), generator=g).tolist()
            turns = torch.randint(0, 4, (self.batch,), generator=g).tolist()
            fine = torch.stack([turn(sharpened(self.fields[i], 0.1 * k)[:, t:t + self.size, s:s + self.size], k) for i, t, s, k in zip(pick, top, left, turns)])
            self.ready.put((nn.functional.avg_pool2d(fine, 4), fine))


def turn(patch, k):
    """Rotates a patch, and the vectors in it."""
    patch = torch.rot90(patch, k, (1, 2))
    for _ in range(k):
        patch = torch.stack([-patch[1], patch[0]])
    return patch


def sharpened(field, power):
    """A field with another slope of its spectrum, so that the network sees more kinds of flow."""
    size = field.shape[-1]
    ky, kx = torch.meshgrid(torch.fft.fftfreq(size) * size, torch.fft.rfftfreq(size) * size, indexing="ij")
    return torch.fft.irfft2(torch.fft.rfft2(field) * (1 + kx**2 + ky**2) ** power, s=(size, size))


def flow(n, size=160):
    noise = torch.fft.rfft2(torch.randn(n, 2, size, size))
    ky, kx = torch.meshgrid(torch.fft.fftfreq(size) * size, torch.fft.rfftfreq(size) * size, indexing="ij")
    return torch.fft.irfft2(noise / (1 + (kx**2 + ky**2)) ** 0.83, s=(size, size)).mul(60)


class Upscale(nn.Module):
    def __init__(self, c=128, depth=16):
        super().__init__()
        self.head, self.tail = nn.Conv2d(2, c, 3, padding=1), nn.Conv2d(c, 2 * 16, 3, padding=1)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)) for _ in range(depth))

    def forward(self, x):
        h = self.head(x)
        for b in self.body:
            h = h + 0.2 * b(h)
        return nn.functional.pixel_shuffle(self.tail(h), 4) + nn.functional.interpolate(x, scale_factor=4, mode="bilinear")


def main(seconds=205):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cutter = Cutter(flow(24), batch=8, size=32)
    cutter.start()
    net = Upscale()
    opt = torch.optim.Adam(net.parameters(), 2e-4)
    start, losses = time.time(), []
    bar = tqdm(mininterval=2.0, ncols=80, unit="it")
    while time.time() - start < seconds:
        coarse, fine = cutter.ready.get()
        loss = (net(coarse) - fine).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        bar.update()
        bar.set_postfix(l1=f"{sum(losses[-20:]) / len(losses[-20:]):.4f}", refresh=False)
    bar.close()
    cutter.over = True
    cutter.join()


if __name__ == "__main__":
    main()
