import sys
import time

import torch
from torch import nn

opts = {"width": 64, "seed": 0, "lr": 1e-3, "seconds": 95}
opts.update({k: float(v) if "." in v else int(v) for k, v in (a.split("=") for a in sys.argv[1:])})
torch.manual_seed(opts["seed"])
w = opts["width"]
net = nn.Sequential(nn.Linear(2, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, 1))
opt = torch.optim.Adam(net.parameters(), opts["lr"])
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=300, factor=0.5)
start, step = time.time(), 0
while time.time() - start < opts["seconds"]:
    x = torch.rand(512, 2) * 4 - 2
    y = torch.sin(3 * x[:, :1]) * torch.cos(2 * x[:, 1:]) + 0.1 * torch.randn(512, 1)
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step(loss.detach())
    step += 1
    if step % 100 == 0:
        print(f"w{w} step {step} mse {loss.item():.4f} lr {opt.param_groups[0]['lr']:.2e}")
print(f"w{w} final mse {loss.item():.4f}")
