"""Is a call a scam? Features of the first ten seconds; AUROC while it trains."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torchmetrics.classification import BinaryAUROC


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    features: int = 64
    hidden: int = 256
    batch: int = 768
    lr: float = 1e-4
    steps: int = 200_000
    every: int = 20


class Calls:
    """An endless stream of calls; one in eight is a scam."""

    def __init__(self, features: int, batch: int) -> None:
        self.batch, self.features = batch, features
        self.g = torch.Generator().manual_seed(31)
        self.direction = torch.randn(features, generator=self.g) / features**0.5

    def __iter__(self) -> Calls:
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        scam = torch.rand(self.batch, generator=self.g) < 0.125
        x = torch.randn(self.batch, self.features, generator=self.g)
        return x + 2.5 * scam[:, None] * self.direction.sign() * x.abs().mean(1, keepdim=True) * 0.1, scam.float()


def build(settings: Settings) -> nn.Sequential:
    """Return the classifier."""
    h = settings.hidden
    return nn.Sequential(
        nn.Linear(settings.features, h), nn.ReLU(), nn.Dropout(0.1), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1)
    )


def train(settings: Settings) -> None:
    """Train, and print a line every few steps."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build(settings).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(7.0, device=device))
    auroc = BinaryAUROC().to(device)
    history: dict[str, list[float]] = {"loss": [], "auroc": []}
    began = time.perf_counter()
    for step, (x, scam) in zip(range(1, settings.steps + 1), Calls(settings.features, settings.batch), strict=False):
        x, scam = x.to(device), scam.to(device)
        logits = model(x).squeeze(1)
        loss = criterion(logits, scam)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

        auroc.update(logits.detach(), scam.long())
        history["loss"].append(loss.item())
        history["auroc"].append(auroc.compute().item())

        if step % settings.every == 0:
            seconds, began = time.perf_counter() - began, time.perf_counter()
            print(
                f"step {step:6d} | loss {sum(history['loss'][-settings.every :]) / settings.every:.4f} "
                f"| auroc {history['auroc'][-1]:.4f} | {settings.every * settings.batch / seconds:,.0f} calls/s",
                flush=True,
            )


if __name__ == "__main__":
    config = Settings()
    print(asdict(config), flush=True)
    train(config)
