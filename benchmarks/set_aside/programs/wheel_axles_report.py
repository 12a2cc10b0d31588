"""Evaluates the newest axle model on the fleet's measurements, a single process."""
import sys

import torch

from wheel_axles import AxleNet, vibrations

path = sys.argv[1]
print("evaluating", path, flush=True)
checkpoint = torch.load(path, map_location="cpu")
model = AxleNet()
model.load_state_dict(checkpoint["model"])
model.eval()
errors = []
with torch.no_grad():
    for fleet in range(200):
        x, y = vibrations(512, 1000 + fleet)
        errors.append((model(x) - y).abs().mean().item())
        print(f"fleet {fleet}: mean error {errors[-1]:.4f}", flush=True)
print("all fleets:", sum(errors) / len(errors))
