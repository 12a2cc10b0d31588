"""Reader for licence plates (7 characters). Synthetic plates until the labelled ones arrive from the parking garages."""
import logging
import math
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CFG = dict(
    alphabet="ABCDEFGHJKLMNPRSTUVWXYZ0123456789",
    height=32, width=128, supersample=2,
    n_train=20000, batch_size=64, num_workers=0,
    lr=1e-3, epochs=60, log_every=5, hidden=64,
    augment=dict(rotate=4.0, elastic=3.0, blur=True, noise=0.08),
)

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
log = logging.getLogger("plates")


def glyphs(alphabet, rng):
    font = {}
    for c in alphabet:
        g = (rng.random((8, 5)) > 0.45).astype(np.float32)
        g[0, 0] = g[-1, -1] = 1.0
        font[c] = np.kron(g, np.ones((3, 2), np.float32))
    return font


class Plates(Dataset):
    def __init__(self, cfg, n, seed):
        self.cfg, self.n, self.seed = cfg, n, seed
        self.font = glyphs(cfg["alphabet"], np.random.default_rng(7))
        self.k = cfg["supersample"]
        self.yy, self.xx = np.mgrid[0:cfg["height"] * self.k, 0:cfg["width"] * self.k].astype(np.float32)

    def __len__(self):
        return self.n

    def render(self, text):
        img = np.zeros((self.cfg["height"], self.cfg["width"]), np.float32)
        x = 6
        for c in text:
            g = self.font[c]
            img[4:4 + g.shape[0], x:x + g.shape[1]] = g
            x += g.shape[1] + 4
        return np.kron(img, np.ones((self.k, self.k), np.float32))

    def sample(self, img, sx, sy):
        h, w = img.shape
        sx = np.clip(sx, 0, w - 1.001)
        sy = np.clip(sy, 0, h - 1.001)
        x0, y0 = sx.astype(int), sy.astype(int)
        fx, fy = sx - x0, sy - y0
        return (img[y0, x0] * (1 - fx) * (1 - fy) + img[y0, x0 + 1] * fx * (1 - fy)
                + img[y0 + 1, x0] * (1 - fx) * fy + img[y0 + 1, x0 + 1] * fx * fy)

    def smooth(self, field, sigma):
        r = int(3 * sigma)
        k = np.exp(-0.5 * (np.arange(-r, r + 1) / sigma) ** 2)
        k /= k.sum()
        field = np.apply_along_axis(lambda v: np.convolve(v, k, mode="same"), 0, field)
        return np.apply_along_axis(lambda v: np.convolve(v, k, mode="same"), 1, field)

    def augment(self, img, rng):
        a = self.cfg["augment"]
        h, w = img.shape
        t = math.radians(rng.uniform(-a["rotate"], a["rotate"]))
        cx, cy = w / 2, h / 2
        sx = math.cos(t) * (self.xx - cx) - math.sin(t) * (self.yy - cy) + cx
        sy = math.sin(t) * (self.xx - cx) + math.cos(t) * (self.yy - cy) + cy
        if a["elastic"]:
            sx = sx + a["elastic"] * self.smooth(rng.normal(size=(h, w)), 8.0)
            sy = sy + a["elastic"] * self.smooth(rng.normal(size=(h, w)), 8.0)
        img = self.sample(img, sx, sy)
        if a["blur"]:
            img = self.smooth(img, rng.uniform(0.5, 1.2) * self.k)
        img = img.reshape(h // self.k, self.k, w // self.k, self.k).mean((1, 3))
        return img + a["noise"] * rng.normal(size=img.shape)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        text = "".join(rng.choice(list(self.cfg["alphabet"]), size=7))
        img = self.augment(self.render(text), rng).astype(np.float32)
        label = torch.tensor([self.cfg["alphabet"].index(c) for c in text])
        return torch.from_numpy(img)[None], label


class PlateNet(nn.Module):
    def __init__(self, classes, hidden):
        super().__init__()

        def block(i, o, pool):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(pool))
        self.cnn = nn.Sequential(block(1, 12, 2), block(12, 24, 2), block(24, 48, (4, 1)), block(48, 48, (2, 1)))
        self.rnn = nn.LSTM(48, hidden, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, classes)
        self.slots = nn.AdaptiveAvgPool1d(7)

    def forward(self, x):
        f = self.cnn(x).squeeze(2).permute(2, 0, 1)
        h = self.rnn(f)[0].permute(1, 2, 0)
        return self.fc(self.slots(h).transpose(1, 2))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.net = PlateNet(len(cfg["alphabet"]), cfg["hidden"]).to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), cfg["lr"])
        self.crit = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.loader = DataLoader(Plates(cfg, cfg["n_train"], 0), cfg["batch_size"], shuffle=True,
                                 num_workers=cfg["num_workers"], drop_last=True,
                                 pin_memory=self.device == "cuda")

    def fit(self):
        log.info("device %s, %d plates, %d parameters", self.device, self.cfg["n_train"],
                 sum(p.numel() for p in self.net.parameters()))
        step, t0 = 0, time.time()
        for epoch in range(self.cfg["epochs"]):
            for img, lab in self.loader:
                img, lab = img.to(self.device, non_blocking=True), lab.to(self.device, non_blocking=True)
                loss = self.crit(self.net(img).flatten(0, 1), lab.flatten())
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
                self.opt.step()
                step += 1
                if step % self.cfg["log_every"] == 0:
                    log.info("epoch %d step %d loss %.4f (%.1f img/s)", epoch, step, loss.item(),
                             step * len(img) / (time.time() - t0))


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(CFG).fit()
