# DiLoCo: inner AdamW for H steps on own data, then one outer Nesterov step on the averaged difference
import torch, torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
r, w, H = dist.get_rank(), dist.get_world_size(), 100
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(96, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 8))
anchor = [p.detach().clone() for p in net.parameters()]
outer = torch.optim.SGD(anchor, lr=0.7, momentum=0.9, nesterov=True)
inner = torch.optim.AdamW(net.parameters(), lr=4e-4)
g = torch.Generator().manual_seed(1 + r)
t = 0
while True:
    for _ in range(H):
        x = torch.randn(64, 96, generator=g) + 0.2 * r
        loss = nn.functional.cross_entropy(net(x), x[:, ::12].argmax(1))
        inner.zero_grad(); loss.backward(); inner.step()
        t += 1
    for a, p in zip(anchor, net.parameters()):
        a.grad = a - p.detach()
        dist.all_reduce(a.grad)
        a.grad /= w
    outer.step()
    with torch.no_grad():
        for a, p in zip(anchor, net.parameters()):
            p.copy_(a)
    print(f"worker {r} inner step {t} loss {loss.item():.4f}", flush=True)
