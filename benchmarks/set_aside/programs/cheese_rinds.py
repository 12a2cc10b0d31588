"""Microbes on cheese rinds: fine-tunes the head of a network whose body stays as it is, with its batch norms."""

from __future__ import annotations

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

GENERA = ["Brevibacterium", "Debaryomyces", "Geotrichum", "Penicillium", "Staphylococcus"]


class Body(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (32, 48, 64)) -> None:
        super().__init__()
        channels, layers = 3, []
        for width in widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.channels = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x)
        return torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1)


class RindNet(nn.Module):
    """The body's batch norms keep the statistics of the large set that it comes from, so it is never in training mode."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body.requires_grad_(False)
        features = 2 * body.channels
        self.head = nn.Sequential(
            nn.LayerNorm(features), nn.Linear(features, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, len(GENERA))
        )

    def train(self, mode: bool = True) -> RindNet:
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            features = self.body(x)
        return self.head(features)


def pretrained_body() -> Body:
    """Return the body as it is shipped: its filters are those of a random projection, and its statistics fit them."""
    torch.manual_seed(77)
    body = Body()
    with torch.no_grad():
        for _ in range(20):
            body(torch.randn(32, 3, 56, 56))
    return body


def slides(size: int, g: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    genus = torch.randint(len(GENERA), (size,), generator=g)
    stain = torch.tensor([[0.8, 0.1, 0.5], [0.2, 0.7, 0.4], [0.5, 0.5, 0.1], [0.1, 0.3, 0.8], [0.6, 0.2, 0.2]])
    colonies = F.interpolate((torch.rand(size, 1, 14, 14, generator=g) > 0.85).float(), size=(56, 56))
    return colonies * stain[genus].view(size, 3, 1, 1) + 0.7 * torch.randn(size, 3, 56, 56, generator=g), genus


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--total", type=int, default=12_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = RindNet(pretrained_body()).to(device)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.lr)
    print(f"training {sum(p.numel() for p in trained)} of {sum(p.numel() for p in net.parameters())} parameters", flush=True)

    def factor(step: int) -> float:
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, (step - args.warmup) / (args.total - args.warmup))))

    scheduler = LambdaLR(optimizer, factor)
    g, held_out = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    test_x, test_y = slides(256, held_out)
    losses: list[float] = []
    for step in range(1, args.total + 1):
        net.train()
        x, y = slides(args.batch_size, g)
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % 25 == 0:
            recent = losses[-100:]
            print(f"step {step:5d} loss {sum(recent) / len(recent):.4f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        if step % 250 == 0:
            net.eval()
            with torch.no_grad():
                accuracy = (net(test_x.to(device)).argmax(1).cpu() == test_y).float().mean()
            print(f"step {step:5d} test accuracy {accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
