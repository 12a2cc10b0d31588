"""Integrates wheel speeds to a position. `python odometry.py odometry.yaml`"""
import json, sys, time
import torch, yaml

cfg = yaml.safe_load(open(sys.argv[1]))
torch.manual_seed(0)
torch.set_num_threads(1)
sizes = [cfg["window"] * 3, *cfg["model"]["hidden"]]
layers = [m for a, b in zip(sizes, sizes[1:]) for m in (torch.nn.Linear(a, b), torch.nn.GELU())]
net = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 2))
o = dict(cfg["optim"])
opt = getattr(torch.optim, o.pop("name"))(net.parameters(), **o)
warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: (it + 1) / cfg["warmup_iters"])
start = time.time()
for it in range(10**7):
    speed = torch.randn(cfg["batch"], cfg["window"], 3)
    heading = speed[..., 2].cumsum(1) * 0.2
    goal = torch.stack([(speed[..., 0] * heading.cos()).sum(1), (speed[..., 0] * heading.sin()).sum(1)], 1)
    loss = ((net(speed.flatten(1)) - goal) ** 2).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    warmup.step()
    if it % 10 == 0:
        print(json.dumps({"it": it, "loss": round(loss.item(), 5), "lr": warmup.get_last_lr()[0], "t": round(time.time() - start, 1)}), flush=True)
