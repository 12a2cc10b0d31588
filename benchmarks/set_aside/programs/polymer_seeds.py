"""Glass transition of polymers from their repeat unit: a small GCN on dense adjacency matrices. Needs a whole card."""
import time

import click
import torch
import torch.nn.functional as F
from torch import nn


class GCN(nn.Module):
    def __init__(self, width=128, layers=4):
        super().__init__()
        self.inp = nn.Linear(9, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x, a):
        h = self.inp(x)
        for lin, norm in zip(self.layers, self.norms):
            h = h + F.silu(norm(a @ lin(h)))
        return self.out(h.mean(1)).squeeze(-1)


def polymers(n, atoms=28):
    kind = torch.randint(0, 9, (n, atoms))
    a = torch.eye(atoms).repeat(n, 1, 1)
    chain = torch.arange(atoms - 1)
    a[:, chain, chain + 1] = a[:, chain + 1, chain] = 1.0
    extra = torch.randint(0, atoms, (n, 5, 2))
    rows = torch.arange(n).unsqueeze(1)
    a[rows, extra[..., 0], extra[..., 1]] = a[rows, extra[..., 1], extra[..., 0]] = 1.0
    x = F.one_hot(kind, 9).float()
    y = (a @ (kind.float().unsqueeze(-1) - 4)).squeeze(-1).relu().mean(1) / 5
    return x, a / a.sum(-1, keepdim=True), y


@click.command()
@click.option("--seed", type=int, default=41)
@click.option("--name", default="gcn")
@click.option("--minutes", default=3.4)
@click.option("--batch", default=64)
def main(seed, name, minutes, batch):
    torch.manual_seed(seed)
    net = GCN()
    opt = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=1e-4)
    vx, va, vy = polymers(512)
    start, it = time.time(), 0
    while time.time() - start < 60 * minutes:
        x, a, y = polymers(batch)
        loss = F.mse_loss(net(x, a), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        it += 1
        if it % 20 == 0:
            click.echo(f"[{name}] it {it:5d} | train mse {loss.item():.4f} | {20 * batch / (time.time() - start) * it / 20:.0f} polymers/s")
        if it % 200 == 0:
            with torch.no_grad():
                click.echo(f"[{name}] it {it:5d} | valid rmse {F.mse_loss(net(vx, va), vy).sqrt().item():.4f}")


if __name__ == "__main__":
    main()
