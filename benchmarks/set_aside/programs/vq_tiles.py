import sys
import datetime
import inspect

import torch
import torch.nn as nn
import torch.nn.functional as F

"""VQ-VAE on tiled textures; the codebook follows the encoder by moving averages and dead codes are restarted."""


class log:
    @staticmethod
    def _write(level, text):
        caller = inspect.stack()[2]
        now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        print(f"{now} | {level:<8} | __main__:{caller.function}:{caller.lineno} - {text}", file=sys.stderr, flush=True)

    @staticmethod
    def info(text):
        log._write("INFO", text)

    @staticmethod
    def success(text):
        log._write("SUCCESS", text)


class Quantizer(nn.Module):
    def __init__(self, k=128, d=32, decay=0.97):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(k, d))
        self.register_buffer("count", torch.ones(k))
        self.register_buffer("total", self.codes.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        idx = torch.cdist(flat.detach(), self.codes).argmin(1)
        q = self.codes[idx].view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        if self.training:
            with torch.no_grad():
                hot = F.one_hot(idx, len(self.codes)).float()
                self.count.lerp_(hot.sum(0), 1 - self.decay)
                self.total.lerp_(hot.t() @ flat, 1 - self.decay)
                self.codes.copy_(self.total / self.count.clamp(min=1e-2)[:, None])
                dead = self.count < 0.05
                if dead.any():
                    some = flat[torch.randint(0, len(flat), (int(dead.sum()),))]
                    self.codes[dead], self.total[dead], self.count[dead] = some, some, 1.0
        commit = F.mse_loss(z, q.detach())
        usage = hot.mean(0) if self.training else F.one_hot(idx, len(self.codes)).float().mean(0)
        perplexity = (-(usage * (usage + 1e-9).log()).sum()).exp()
        return z + (q - z).detach(), commit, perplexity


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 32, 1))
        self.vq = Quantizer()
        self.dec = nn.Sequential(nn.ConvTranspose2d(32, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 1, 3, 1, 1))

    def forward(self, x):
        q, commit, ppl = self.vq(self.enc(x))
        return self.dec(q), commit, ppl


def tiles(n):
    k = torch.rand(n, 2, 1, 1) * 1.2
    phase = torch.rand(n, 1, 1) * 6.28
    r = torch.arange(32.0)
    return torch.sin(k[:, 0] * r[None, :, None] + k[:, 1] * r[None, None, :] + phase)[:, None]


def train():
    torch.manual_seed(12)
    model = Model()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    log.info(f"{sum(p.numel() for p in model.parameters()):,} parameters, 128 codes")
    step = 0
    while True:
        x = tiles(32)
        y, commit, ppl = model(x)
        rec = F.mse_loss(y, x)
        loss = rec + 0.25 * commit
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 40 == 0:
            log.info(f"step={step} recon={rec.item():.4f} commit={commit.item():.4f} loss={loss.item():.4f} perplexity={ppl.item():.1f}")
        if step % 1000 == 0:
            log.success(f"{step} steps; codes in use: {int((model.vq.count > 0.3).sum())}/128")


if __name__ == "__main__":
    train()
