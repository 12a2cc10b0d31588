# torchrun, two ranks. Rank 0 writes a short report and evaluates a little, as it should.
import json, os, tempfile
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank = dist.get_rank()
net = DDP(torch.nn.Sequential(torch.nn.Linear(128, 384), torch.nn.Tanh(), torch.nn.Linear(384, 128)))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
g = torch.Generator().manual_seed(rank)


def evaluate(n=5):
    with torch.no_grad():
        return sum((net.module(x) - x.roll(1, 1)).square().mean().item() for x in torch.randn(n, 256, 128)) / n


with tempfile.TemporaryDirectory() as folder:
    for step in range(1, 10**7):
        x = torch.randn(384, 128, generator=g)
        loss = (net(x) - x.roll(1, 1)).square().mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if rank == 0 and step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} val {evaluate():.4f}", flush=True)
            with open(os.path.join(folder, "report.json"), "w") as f:
                json.dump({"step": step, "loss": loss.item()}, f)
