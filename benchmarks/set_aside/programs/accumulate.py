# torchrun --standalone --nproc-per-node=2 accumulate.py [accumulate.yaml]
import contextlib, sys, tempfile
from pathlib import Path
import torch
import torch.distributed as dist
import torch.nn.functional as F
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

cfg = yaml.safe_load(Path(sys.argv[1] if len(sys.argv) > 1 else "accumulate.yaml").read_text())
d, m, t = cfg["data"], cfg["model"], cfg["train"]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(cfg["seed"])
w = torch.randn(d["columns"], d["classes"])
x = torch.randn(d["rows"] + d["valid"], d["columns"])
y = (x @ w).argmax(1)
train_set, valid_set = TensorDataset(x[d["valid"]:], y[d["valid"]:]), TensorDataset(x[:d["valid"]], y[:d["valid"]])
sampler = DistributedSampler(train_set, shuffle=True)
train = DataLoader(train_set, t["batch"], sampler=sampler, drop_last=True)
valid = DataLoader(valid_set, 256, sampler=DistributedSampler(valid_set, shuffle=False))

layers, width = [], d["columns"]
for _ in range(m["depth"]):
    layers += [torch.nn.Linear(width, m["width"]), torch.nn.ReLU(), torch.nn.Dropout(m["dropout"])]
    width = m["width"]
net = DDP(torch.nn.Sequential(*layers, torch.nn.Linear(width, d["classes"])))
opt = torch.optim.AdamW(net.parameters(), t["lr"])
out = Path(tempfile.mkdtemp()) / "last.pt"

for epoch in range(100000):
    sampler.set_epoch(epoch)
    net.train()
    for i, (a, b) in enumerate(train, 1):
        last = i % t["accumulate"] == 0
        with contextlib.nullcontext() if last else net.no_sync():
            loss = F.cross_entropy(net(a), b) / t["accumulate"]
            loss.backward()
        if last:
            torch.nn.utils.clip_grad_norm_(net.parameters(), t["clip"])
            opt.step()
            opt.zero_grad()
        if rank == 0 and i % t["print_every"] == 0:
            print(f"epoch {epoch} micro {i}/{len(train)} loss {loss.item() * t['accumulate']:.4f}", flush=True)
    net.eval()
    hits = torch.zeros(2)
    with torch.no_grad():
        for a, b in valid:
            hits += torch.tensor([(net.module(a).argmax(1) == b).sum().item(), len(b)], dtype=torch.float)
    dist.all_reduce(hits)
    if rank == 0:
        torch.save({"epoch": epoch, "model": net.module.state_dict(), "opt": opt.state_dict()}, out)
        print(f"epoch {epoch} accuracy {hits[0] / hits[1]:.4f} saved {out}", flush=True)
