"""Two-headed depth + edges, weighted by uncertainty. First: RuntimeError: element 0 of tensors does not require grad and does
not have a grad_fn. Fixed with requires_grad=True."""
import click
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.depth, self.edges = nn.Conv2d(width, 1, 1), nn.Conv2d(width, 1, 1)

    def forward(self, x):
        h = self.body(x)
        return self.depth(h), self.edges(h)


def scenes(n):
    depth = nn.functional.interpolate(torch.rand(n, 1, 4, 4), size=32, mode="bilinear")
    edges = ((depth - depth.roll(1, 2)).abs() + (depth - depth.roll(1, 3)).abs() > 0.06).float()
    return torch.cat([depth, 1 - depth, edges * 0.5], 1) + 0.05 * torch.randn(n, 3, 32, 32), depth, edges


def combine(losses, weights):
    return torch.tensor([w * l.item() for w, l in zip(weights, losses)], requires_grad=True).sum()


@click.command()
@click.option("--width", default=32)
@click.option("--lr", default=1e-3)
@click.option("--weights", default=(1.0, 0.5), nargs=2, type=float)
def main(width, lr, weights):
    torch.manual_seed(0)
    net = Heads(width)
    opt = torch.optim.AdamW(net.parameters(), lr)
    for step in range(1, 10**7):
        x, depth, edges = scenes(8)
        d, e = net(x)
        loss = combine([nn.functional.l1_loss(d, depth), nn.functional.binary_cross_entropy_with_logits(e, edges)], weights)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            click.echo(f"iter {step:>6} | total {loss.item():.4f} | lr {lr:g}")


if __name__ == "__main__":
    main()
