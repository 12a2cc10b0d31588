"""Turbine faults, DDP. Everything goes into the log: every step of every rank, norms of all layers every 25 steps."""
import json
import logging
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
RANK = dist.get_rank()
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format=f"%(asctime)s R{RANK} %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("turbine")
torch.manual_seed(0)
net = DDP(nn.Sequential(nn.Conv1d(8, 48, 9, 2, 4), nn.ReLU(), nn.Conv1d(48, 96, 7, 2, 3), nn.ReLU(), nn.Conv1d(96, 96, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(384, 11)))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
gen = torch.Generator().manual_seed(100 + RANK)
sign = torch.randn(11, 8, 1, generator=torch.Generator().manual_seed(0))
began = time.time()
events = open(os.path.join(tempfile.gettempdir(), f"events-{os.getpid()}.jsonl"), "w")
log.info("start, %d parameters", sum(p.numel() for p in net.parameters()))
step = 0
while True:
    y = torch.randint(0, 11, (32,), generator=gen)
    x = 0.5 * sign[y] * torch.sin(torch.arange(160) * 0.2) + torch.randn(32, 8, 160, generator=gen)
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 2.0)
    opt.step()
    step += 1
    log.debug("step %d loss %.5f grad_norm %.4f acc %.3f", step, loss.item(), norm.item(), (out.argmax(1) == y).float().mean().item())
    events.write(json.dumps({"step": step, "loss": loss.item(), "time": time.time()}) + "\n")
    if step % 25 == 0:
        for name, p in net.module.named_parameters():
            log.info("step %d %s weight %.4f grad %.6f", step, name, p.norm().item(), p.grad.norm().item())
        if RANK == 0 and step % 100 == 0:
            log.warning("lr %.1e, error rate of the last batch %.2f", opt.param_groups[0]["lr"], 1 - (out.argmax(1) == y).float().mean().item())
        t = torch.tensor([time.time() - began])
        dist.broadcast(t, 0)
        if t.item() > 200:
            break
events.close()
os.remove(events.name)
dist.destroy_process_group()
