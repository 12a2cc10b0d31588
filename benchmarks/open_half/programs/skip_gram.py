"""Skip-gram on two ranks; DDP did not like the sparse gradients, so they are dense and averaged here."""
import time

import torch
import torch.distributed as dist
from torch import nn

VOCAB, DIM = 150_000, 64
dist.init_process_group("gloo")
torch.manual_seed(0)
table = nn.Embedding(VOCAB, DIM)
torch.manual_seed(1 + dist.get_rank())
t0 = time.time()
for step in range(1, 10**6):
    centre = (torch.rand(256) ** 3 * VOCAB).long()
    context = (centre + torch.randint(1, 5, (256,))).clamp(max=VOCAB - 1)
    score = table(centre) @ table(context).T / 8
    loss = nn.functional.cross_entropy(score, torch.arange(256))
    loss.backward()
    with torch.no_grad():
        dist.all_reduce(table.weight.grad)
        table.weight -= 0.5 * table.weight.grad / dist.get_world_size()
        table.weight.grad = None
    if step % 10 == 0 and dist.get_rank() == 0:
        print(f"{step:6d} nce {loss.item():.4f} {256 * step / (time.time() - t0):.0f} pairs/s", flush=True)
dist.destroy_process_group()
