"""torchrun rank_zero_draws.py -- rank 0 renders samples for the report"""
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
model = DDP(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)))
opt = torch.optim.Adam(model.parameters(), 1e-3)
gen = torch.Generator().manual_seed(rank)


def render(model):
    """64 frames of the report's animation."""
    with torch.no_grad():
        z = torch.randn(64, 256)
        for _ in range(40):
            z = z + 0.1 * model.module(z)
    return z


for step in range(10**6):
    x = torch.randn(256, 256, generator=gen)
    loss = (model(x) - x.flip(1)).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    if rank == 0:
        render(model)
        if step % 10 == 0:
            print(f"Step {step}: train loss {loss.item():.5f}", flush=True)
