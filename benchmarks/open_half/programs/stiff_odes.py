"""Neural ODE for a stiff reaction (Robertson, rescaled). Explicit RK4 with many small steps, trained through the solver."""
import time

import torch
from torch import nn
from torch.autograd import detect_anomaly


class Field(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3))

    def forward(self, y):
        return self.net(y) - 0.1 * y


def rk4(f, y, h, n):
    out = []
    for _ in range(n):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out.append(y)
    return torch.stack(out, 1)


def truth(y):
    a, b, c = y.unbind(-1)
    return torch.stack([-0.4 * a + 2 * b * c, 0.4 * a - 2 * b * c - 3 * b * b, 3 * b * b], -1)


def main(seconds=205.0):
    torch.manual_seed(0)
    field = Field()
    opt = torch.optim.Adam(field.parameters(), 2e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9995)
    start, it, last = time.perf_counter(), 0, time.perf_counter()
    with detect_anomaly():
        while time.perf_counter() - start < seconds:
            y0 = torch.rand(64, 3)
            with torch.no_grad():
                target = rk4(truth, y0, 0.1, 30)
            loss = (rk4(field, y0, 0.1, 30) - target).abs().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(field.parameters(), 1.0)
            opt.step()
            sched.step()
            it += 1
            if it % 10 == 0:
                now = time.perf_counter()
                print(f"iter {it:5d} | l1 {loss.item():.5f} | {(now - last) / 10:.3f} s/iter", flush=True)
                last = now


if __name__ == "__main__":
    main()
