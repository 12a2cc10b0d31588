"""Surrogate of the flow in a duct: geometry and inflow to a velocity profile, learned while simulations arrive."""
import argparse
import csv
import time

import numpy as np
import torch
from torch import nn

INPUTS, OUTPUTS = 8, 64


class Solver:
    """A cheap stand-in for the CFD code: laminar and turbulent profiles in a duct with a bump."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.y = np.linspace(0, 1, OUTPUTS)

    def simulate(self, count):
        p = self.rng.uniform(0, 1, size=(count, INPUTS)) * np.array([10, 2, 0.5, 300, 1, 1, 50, 0.1])
        shape = 2 + 10 * p[:, 0:1] / (10 + p[:, 3:4] / 30)
        bump = p[:, 2:3] * np.exp(-((self.y - p[:, 4:5]) / (0.1 + 0.2 * p[:, 5:6])) ** 2)
        profile = p[:, 1:2] * (1 - np.abs(2 * self.y - 1) ** shape) - bump + p[:, 7:8] * np.sin(p[:, 6:7] * 0.3 * self.y)
        return p.tolist(), profile.astype(np.float32)


class InputScaler:
    """Mean and standard deviation of the inputs, kept up to date as new simulations come in."""

    def __init__(self):
        self.seen = []

    def update(self, rows):
        self.seen.extend(rows)
        table = np.array(self.seen)
        self.mean = table.mean(0)
        self.std = table.std(0) + 1e-8

    def scale(self, rows):
        return torch.tensor((np.array(rows) - self.mean) / self.std, dtype=torch.float32)


class Surrogate(nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        layers = [nn.Linear(INPUTS, width), nn.GELU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(width, OUTPUTS))

    def forward(self, x):
        return self.net(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    solver, scaler = Solver(), InputScaler()
    test_rows, test_profiles = Solver(seed=99).simulate(1000)
    test_profiles = torch.from_numpy(test_profiles).to(device)
    net = Surrogate().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    with open("duct_flow.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["step", "loss", "test_error", "lr"])
        began, total = time.time(), 0.0
        for step in range(1, args.steps + 1):
            rows, profiles = solver.simulate(args.batch_size)
            scaler.update(rows)
            x = scaler.scale(rows).to(device)
            y = torch.from_numpy(profiles).to(device)
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
            if step % args.log_every == 0:
                seconds = time.time() - began
                print(f"step {step:5d} mse {total / args.log_every:.6f} lr {schedule.get_last_lr()[0]:.2e} "
                      f"{args.log_every / seconds:.1f} it/s", flush=True)
                began, total = time.time(), 0.0
            if step % 200 == 0:
                with torch.no_grad():
                    error = (net(scaler.scale(test_rows).to(device)) - test_profiles).abs().mean().item()
                print(f"  test: mean error {error:.5f} m/s", flush=True)
                table.writerow([step, loss.item(), error, schedule.get_last_lr()[0]])
                file.flush()
    torch.save({"net": net.state_dict(), "mean": scaler.mean, "std": scaler.std}, "duct_flow.pt")


if __name__ == "__main__":
    main()
