"""1-d convolutional keyword spotter on synthetic chirps."""
import sys
import types

import torch
import torch.distributed as dist
import torch.nn as nn
import yaml


def load(argv):
    options = dict(a.split("=", 1) for a in argv)
    raw = yaml.safe_load(open(options.pop("cfg")))
    for key, value in options.items():
        group, name = key.split(".")
        raw[group][name] = yaml.safe_load(value)
    return types.SimpleNamespace(**{k: types.SimpleNamespace(**v) for k, v in raw.items()})


cfg = load(sys.argv[1:])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
layers, c = [], 1
for _ in range(cfg.model.depth):
    layers += [nn.Conv1d(c, cfg.model.width // 2, cfg.model.kernel, stride=2), nn.GroupNorm(4, cfg.model.width // 2), nn.ReLU()]
    c = cfg.model.width // 2
net = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(c, 6))
net = nn.parallel.DistributedDataParallel(net)
opt = torch.optim.SGD(net.parameters(), cfg.optim.lr, cfg.optim.momentum)
torch.manual_seed(1000 + rank)
t = torch.linspace(0, 1, cfg.train.length)
print(f"rank {rank}/{dist.get_world_size()} on gpu:0 ({dist.get_backend()})", flush=True)
for step in range(1, 10**7):
    y = torch.randint(0, 6, (cfg.train.batch,))
    x = torch.sin((30 + 25 * y[:, None]) * t * (1 + 0.3 * t)) + 1.2 * torch.randn(cfg.train.batch, cfg.train.length)
    loss = nn.functional.cross_entropy(net(x[:, None]), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % cfg.train.log_every == 0 and rank == 0:
        print(f"{step=} loss={loss.item():.4f}", flush=True)
