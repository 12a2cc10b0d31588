"""A denoiser for seismic traces, trained in slices of wall time. Ends by itself before the queue would end it."""
import argparse
import os
import time

import torch
from torch import nn


def traces(n, length=256):
    t = torch.linspace(0, 1, length)
    spikes = (torch.rand(n, length) < 0.03).float() * torch.randn(n, length)
    wavelet = (1 - 2 * (3.14 * 25 * (t[:41] - t[20])) ** 2) * torch.exp(-((3.14 * 25 * (t[:41] - t[20])) ** 2))
    clean = nn.functional.conv1d(spikes.unsqueeze(1), wavelet.view(1, 1, -1), padding=20)
    return clean + 0.3 * torch.randn(n, 1, length), clean


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--state", required=True)
    ap.add_argument("--until", type=float, required=True, help="when the queue ends the job, in seconds since 1970")
    a = ap.parse_args()
    net = nn.Sequential(nn.Conv1d(1, 48, 11, padding=5), nn.ReLU(), nn.Conv1d(48, 48, 11, padding=5), nn.ReLU(), nn.Conv1d(48, 48, 11, padding=5), nn.ReLU(), nn.Conv1d(48, 1, 11, padding=5))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    step = 0
    if os.path.exists(a.state):
        state = torch.load(a.state)
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        torch.set_rng_state(state["rng"])
        step = state["step"]
    print(f"continues at step {step}" if step else "starts from scratch")
    first = step
    while time.time() < a.until - 3 or step < first + 20:
        noisy, clean = traces(24)
        loss = nn.functional.mse_loss(net(noisy), clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 20 == 0:
            print(f"step {step} mse {loss.item():.5f}")
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "rng": torch.get_rng_state(), "step": step}, a.state)
    print(f"walltime: saved at step {step}")


if __name__ == "__main__":
    main()
