"""Progressive stacking: a deeper network every stage, whose new block begins as the identity (Gong et al. 2019)."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
rank = dist.get_rank()


class Residual(nn.Module):
    def __init__(self, d=192):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        nn.init.zeros_(self.down.weight)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


blocks = nn.ModuleList([Residual()])
stem, head = nn.Linear(32, 192), nn.Linear(192, 6)
gen = torch.Generator().manual_seed(100 + rank)
step = 0
for depth in range(1, 11):
    model = DDP(nn.Sequential(stem, *blocks, head))
    opt = torch.optim.AdamW(model.parameters(), 5e-4)
    if rank == 0:
        print(f"[stage {depth}] {sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters", flush=True)
    for _ in range(120 if depth < 10 else 10**7):
        x = torch.randn(256, 32, generator=gen)
        loss = nn.functional.cross_entropy(model(x), x[:, :6].abs().argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if rank == 0 and step % 20 == 0:
            print(f"step={step} loss={loss.item():.4f}", flush=True)
    blocks.append(Residual())
