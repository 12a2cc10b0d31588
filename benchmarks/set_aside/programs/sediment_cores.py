"""
Layer segmentation in sediment cores (XRF scans, 1 mm). 1-D U-Net, 5 facies.
Runs on the group's server; the home quota is 5 GB so checkpoints are zipped.
"""
import gzip
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from tqdm import tqdm

SAVE_EVERY = 30
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OUT = tempfile.mkdtemp(prefix="cores_")
LENGTH, ELEMENTS, FACIES = 512, 12, 5


def conv(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 9, padding=4), nn.GroupNorm(8, o), nn.GELU(),
                         nn.Conv1d(o, o, 9, padding=4), nn.GroupNorm(8, o), nn.GELU())


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList([conv(i, o) for i, o in zip((ELEMENTS,) + widths[:-1], widths)])
        self.up = nn.ModuleList([conv(a + b, a) for a, b in zip(widths[-2::-1], widths[:0:-1])])
        self.head = nn.Conv1d(widths[0], FACIES, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool1d(x, 2))
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = block(torch.cat([skip, F.interpolate(x, scale_factor=2)], 1))
        return self.head(x)


def draw_cores(n, g):
    """n cores with random layers; each facies has its own mean composition"""
    change = torch.rand(n, LENGTH, generator=g) < 0.02
    layer = change.cumsum(1)
    table = torch.randint(0, FACIES, (n, int(layer.max()) + 1), generator=g)
    y = table.gather(1, layer)
    x = COMPOSITION[y].transpose(1, 2) + 1.3 * torch.randn(n, ELEMENTS, LENGTH, generator=g)
    return x, y


COMPOSITION = torch.randn(FACIES, ELEMENTS, generator=torch.Generator().manual_seed(0))


def save(model, opt, step):
    state = {"model": model.state_dict(), "optimizer": opt.state_dict(), "step": step}
    path = os.path.join(OUT, "last.pt.gz")
    with gzip.open(path + ".part", "wb") as f:
        torch.save(state, f)
    os.replace(path + ".part", path)


def main():
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(2)
    print("checkpoints in", OUT)
    X, Y = draw_cores(1500, g)
    model = UNet().to(DEVICE)
    opt = torch.optim.AdamW(model.parameters(), 4e-4)
    step = 0
    for epoch in range(50):
        order = torch.randperm(len(X), generator=g).split(8)
        bar = tqdm(order, desc=f"epoch {epoch}", mininterval=2.0)
        for idx in bar:
            loss = F.cross_entropy(model(X[idx].to(DEVICE)), Y[idx].to(DEVICE))
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % SAVE_EVERY == 0:
                save(model, opt, step)
            bar.set_postfix(loss=f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
