"""Active learning: the lab measures what the model asks for, a batch at a time, and at most one batch in two minutes."""
import os
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

LAB = Path(tempfile.mkdtemp()) / "results"
POLL_S = 3.0
torch.manual_seed(3)
candidates = torch.randn(4000, 48)
measured = torch.randperm(4000)[:128]


def lab_answers(asked_at):
    return time.time() - asked_at >= 120


def wait_for_lab(asked_at):
    while not lab_answers(asked_at):
        time.sleep(POLL_S)


for generation in range(100):
    net = nn.Sequential(nn.Linear(48, 384), nn.Tanh(), nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 1))
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    began = time.time()
    while time.time() - began < 20:
        i = measured[torch.randint(0, len(measured), (128,))]
        x = candidates[i]
        loss = (net(x).squeeze(1) - x[:, :3].sum(1).sin()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"[gen {generation}] fitted on {len(measured)} measurements, mse={loss.item():.5f}", flush=True)
    with torch.no_grad():
        doubt = net(candidates).abs().squeeze(1)
    measured = torch.cat([measured, doubt.topk(96).indices]).unique()
    wait_for_lab(time.time())
