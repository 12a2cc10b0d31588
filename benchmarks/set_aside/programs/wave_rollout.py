"""Neural operator for the 1D wave equation. The horizon of the unrolled training grows in stages (curriculum)."""
import argparse
import logging
import time

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(name)s] %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("wave_rollout")
GRID = 64


def simulate(count, steps, seed, dt=0.02, inner=4):
    """Waves on a ring with a soft spot; leapfrog in time. Returns count x steps+1 x 2 x GRID."""
    g = torch.Generator().manual_seed(seed)
    x = torch.linspace(0, 1, GRID + 1)[:-1]
    u = torch.zeros(count, GRID)
    for k in range(1, 5):
        a, b = torch.randn(2, count, 1, generator=g) / k
        u = u + a * torch.sin(2 * torch.pi * k * x) + b * torch.cos(2 * torch.pi * k * x)
    v = torch.zeros_like(u)
    speed = 1.0 - 0.5 * torch.exp(-((x - 0.5) / 0.1) ** 2)
    h, states = dt / inner, [torch.stack([u, v], 1)]
    for _ in range(steps):
        for _ in range(inner):
            bend = (u.roll(1, 1) + u.roll(-1, 1) - 2 * u) * GRID ** 2
            v = v + h * speed ** 2 * bend
            u = u + h * v
        states.append(torch.stack([u, v / 10], 1))
    states[0] = torch.stack([states[0][:, 0], states[0][:, 1] / 10], 1)
    return torch.stack(states, 1)


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, 2) / width)
        self.local = nn.Conv1d(width, width, 1)

    def forward(self, x):
        f = torch.fft.rfft(x)
        out = torch.zeros_like(f)
        out[..., :self.modes] = torch.einsum("bim,iom->bom", f[..., :self.modes], torch.view_as_complex(self.weight))
        return torch.nn.functional.gelu(torch.fft.irfft(out, n=x.shape[-1]) + self.local(x))


class Operator(nn.Module):
    def __init__(self, width=32, layers=3, modes=16):
        super().__init__()
        self.lift = nn.Conv1d(3, width, 1)
        self.layers = nn.ModuleList(Spectral(width, modes) for _ in range(layers))
        self.project = nn.Conv1d(width, 2, 1)
        self.register_buffer("x", torch.linspace(0, 1, GRID).view(1, 1, GRID))

    def forward(self, state):
        h = self.lift(torch.cat([state, self.x.expand(len(state), 1, GRID)], 1))
        for layer in self.layers:
            h = h + layer(h)
        return state + self.project(h)


@torch.no_grad()
def long_rollout(model, waves):
    """Error at several horizons on test waves, one wave after the other as in deployment."""
    errors = torch.zeros(waves.shape[1] - 1)
    for wave in waves:
        state = wave[:1]
        for t in range(waves.shape[1] - 1):
            state = model(state)
            errors[t] += ((state[0] - wave[t + 1]).norm() / wave[t + 1].norm()).item() / len(waves)
    return errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps-per-stage", type=int, nargs="+", default=[2500, 1800, 1500, 1200])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    waves = simulate(1000, 24, seed=1).to(device)
    test = simulate(40, 24, seed=2).to(device)
    model = Operator().to(device)
    log.info("%d waves, %d parameters, stages %s", len(waves), sum(p.numel() for p in model.parameters()), args.stages)
    for stage, (horizon, steps) in enumerate(zip(args.stages, args.steps_per_stage), 1):
        optimizer = torch.optim.Adam(model.parameters(), lr=args.lr / stage)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=args.lr / 20)
        log.info("stage %d of %d: horizon %d, %d steps", stage, len(args.stages), horizon, steps)
        began, total = time.time(), 0.0
        for step in range(1, steps + 1):
            which = torch.randint(0, len(waves), (args.batch_size,))
            start = int(torch.randint(0, waves.shape[1] - horizon, ()))
            state, loss = waves[which, start], 0.0
            for t in range(1, horizon + 1):
                state = model(state)
                loss = loss + nn.functional.mse_loss(state, waves[which, start + t]) / horizon
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
            if step % 20 == 0:
                log.info("horizon %d step %d/%d mse %.5f %.0f ms/step", horizon, step, steps, total / 20,
                         (time.time() - began) / 20 * 1000)
                began, total = time.time(), 0.0
            if step % 300 == 0 or step == steps:
                errors = long_rollout(model, test)
                log.info("test rollout: error %.3f at 1, %.3f at 8, %.3f at 24", errors[0], errors[7], errors[23])
                began = time.time()


if __name__ == "__main__":
    main()
