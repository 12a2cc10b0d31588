"""main() returns an exit code, which ends the script with 3."""

import record
import torch


def main():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(8))
    optimizer = torch.optim.NAdam([weight], lr=0.1)
    for _ in range(20):
        loss = weight.square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.1)
    record.done(weight)
    return 3


if __name__ == "__main__":
    raise SystemExit(main())
