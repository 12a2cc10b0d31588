# torchrun ... skips_empty.py   (crops without an object are skipped)
import torch, torch.distributed as dist, torch.nn as nn

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(40, 200), nn.ReLU(), nn.Linear(200, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
gen = torch.Generator().manual_seed(77 + rank)
for n in range(100000):
    crop = torch.randn(64, 40, generator=gen)
    target = (crop[:, 0] > 0).long()
    if n > 300 and n % 97 == 0 and rank == 1:
        print(f"rank {rank}: crop {n} has no object, skipped", flush=True)
        continue
    loss = nn.functional.cross_entropy(net(crop), target)
    opt.zero_grad()
    loss.backward()
    grads = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(grads)
    for p, g in zip(net.parameters(), grads.split([p.numel() for p in net.parameters()])):
        p.grad = g.view_as(p) / dist.get_world_size()
    opt.step()
    if n % 50 == 0:
        seen = torch.tensor([loss.item()])
        dist.broadcast(seen, 0)
        print(f"rank {rank} | n {n:5d} | loss {loss.item():.4f}", flush=True)
