"""python -m pkg.train, with relative imports."""

import record
import torch

from .model import build


def main():
    """Train."""
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(40):
        x = torch.randn(16, 6)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.01)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    record.done(model)


if __name__ == "__main__":
    main()
