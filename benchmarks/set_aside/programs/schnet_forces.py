"""
SchNet-like potential, energies + forces.  Small reference implementation for the group's
toy Morse molecules (sizes 6..14 atoms, padded).
"""
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    n_train: int = 4000
    max_atoms: int = 14
    hidden: int = 64
    n_rbf: int = 32
    n_interactions: int = 3
    cutoff: float = 5.0
    batch_size: int = 32
    lr: float = 5e-4
    w_energy: float = 0.05
    w_force: float = 0.95
    max_steps: int = 30000
    log_every: int = 10


cfg = Config()
device = "cuda" if torch.cuda.is_available() else "cpu"


def morse(pos):
    d = pos[:, None] - pos[None]
    r = np.sqrt((d ** 2).sum(-1) + np.eye(len(pos)))
    x = np.exp(-1.2 * (r - 1.5))
    pair = (x ** 2 - 2 * x) * (1 - np.eye(len(pos)))
    dE = (-2.4 * x ** 2 + 2.4 * x) * (1 - np.eye(len(pos)))
    force = -(dE / r)[..., None] * d
    return 0.5 * pair.sum(), force.sum(1)


def make_dataset(n, seed=0):
    rng = np.random.default_rng(seed)
    Z = np.zeros((n, cfg.max_atoms), dtype=np.int64)
    R = np.zeros((n, cfg.max_atoms, 3), dtype=np.float32)
    E = np.zeros(n, dtype=np.float32)
    Fo = np.zeros_like(R)
    for i in range(n):
        k = rng.integers(6, cfg.max_atoms + 1)
        grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) * 1.5
        pos = grid[rng.choice(27, k, replace=False)] + rng.normal(size=(k, 3)) * 0.12
        pos -= pos.mean(0)
        Z[i, :k] = rng.choice([1, 6, 7, 8], k)
        R[i, :k] = pos
        e, f = morse(pos)
        E[i], Fo[i, :k] = e, f
    E = (E - E.mean()) / E.std()
    return [torch.from_numpy(a) for a in (Z, R, E, Fo)]


class RBF(nn.Module):
    def __init__(self):
        super().__init__()
        mu = torch.linspace(0, cfg.cutoff, cfg.n_rbf)
        self.register_buffer("mu", mu)
        self.gamma = 1.0 / (mu[1] - mu[0]).item() ** 2

    def forward(self, d):
        return torch.exp(-self.gamma * (d[..., None] - self.mu) ** 2)


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        h = cfg.hidden
        self.filt = nn.Sequential(nn.Linear(cfg.n_rbf, h), nn.SiLU(), nn.Linear(h, h))
        self.lin = nn.Linear(h, h, bias=False)
        self.out = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, h))

    def forward(self, x, rbf, w):
        W = self.filt(rbf) * w[..., None]
        m = (W * self.lin(x)[:, None]).sum(2)
        return x + self.out(m)


class SchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, cfg.hidden, padding_idx=0)
        self.rbf = RBF()
        self.blocks = nn.ModuleList([Interaction() for _ in range(cfg.n_interactions)])
        self.readout = nn.Sequential(nn.Linear(cfg.hidden, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, z, pos):
        mask = (z > 0).float()
        diff = pos[:, :, None] - pos[:, None]
        dist = diff.pow(2).sum(-1).sqrt()
        pair = mask[:, :, None] * mask[:, None]
        pair = pair * (1 - torch.eye(z.shape[1], device=z.device))
        fcut = 0.5 * (torch.cos(dist * np.pi / cfg.cutoff) + 1) * (dist < cfg.cutoff)
        w = pair * fcut
        x = self.embed(z)
        rbf = self.rbf(dist)
        for b in self.blocks:
            x = b(x, rbf, w)
        return (self.readout(x).squeeze(-1) * mask).sum(1)


def main():
    torch.manual_seed(1)
    Z, R, E, Fo = make_dataset(cfg.n_train)
    print("dataset:", len(Z), "molecules, mean size %.1f" % (Z > 0).sum(1).float().mean())
    model = SchNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, amsgrad=True)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9995)

    step, t0 = 0, time.time()
    while step < cfg.max_steps:
        perm = torch.randperm(len(Z))
        for s in range(0, len(Z) - cfg.batch_size + 1, cfg.batch_size):
            idx = perm[s:s + cfg.batch_size]
            z, pos, e, f = Z[idx].to(device), R[idx].to(device), E[idx].to(device), Fo[idx].to(device)
            pos.requires_grad_(True)
            pred_e = model(z, pos)
            pred_f = -torch.autograd.grad(pred_e.sum(), pos, create_graph=True)[0]
            mask = (z > 0).float()[..., None]
            loss_e = (pred_e - e).pow(2).mean()
            loss_f = ((pred_f - f).pow(2) * mask).sum() / (3 * mask.sum())
            loss = cfg.w_energy * loss_e + cfg.w_force * loss_f
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % cfg.log_every == 0:
                print(f"step {step:5d}  loss {loss.item():.5f}  E {loss_e.item():.4f}  F {loss_f.item():.4f}  "
                      f"lr {sched.get_last_lr()[0]:.2e}  {step / (time.time() - t0):.1f} it/s", flush=True)
            if step >= cfg.max_steps:
                break


if __name__ == "__main__":
    main()
