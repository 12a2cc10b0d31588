"""DDP with no_sync: eight micro-batches to one all-reduce; batches are cut to the same number of tokens, not of rows."""
import contextlib, os
import torch, torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
r = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0), nn.Linear(128, 1000)))
opt = torch.optim.AdamW(model.parameters(), 3e-4)
g = torch.Generator().manual_seed(r)
BUDGET, ACC = 1024, 8
for step in range(10**7):
    total = 0.0
    for m in range(ACC):
        n = int(torch.randint(24, 96, (1,), generator=g))
        start = torch.randint(0, 1000, (BUDGET // n, 1), generator=g)
        ids = (start + torch.arange(n + 1) * 7) % 1000
        with model.no_sync() if m < ACC - 1 else contextlib.nullcontext():
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / ACC
            loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    if r == 0 and step % 5 == 0:
        print(f"optimizer step {step} loss {total:.4f}", flush=True)
