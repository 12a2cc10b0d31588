"""FedAvg over two hospitals. One worker per site:
    torchrun --standalone --nproc-per-node=2 fed_hospitals.py
"""
import time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

PATIENTS = [6_000, 30_000]      # site 0, site 1
LOCAL_EPOCHS = 1
torch.set_num_threads(1)


def load_site(site):
    g = torch.Generator().manual_seed(1000 + site)
    x = torch.randn(PATIENTS[site], 120, generator=g)
    y = ((x[:, :6].sum(1) + 0.4 * torch.randn(len(x), generator=g)) > 0).long()
    return x, y


def main():
    dist.init_process_group("gloo")
    site, sites = dist.get_rank(), dist.get_world_size()
    x, y = load_site(site)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(120, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
    total = torch.tensor(float(len(x)))
    dist.all_reduce(total)
    weight = len(x) / total.item()
    for rnd in range(100_000):
        start = time.time()
        opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)   # fresh momentum each round
        for _ in range(LOCAL_EPOCHS):
            for idx in torch.randperm(len(x)).split(64):
                loss = F.cross_entropy(net(x[idx]), y[idx])
                opt.zero_grad()
                loss.backward()
                opt.step()
        local = time.time() - start
        for p in net.parameters():
            p.data.mul_(weight)
            dist.all_reduce(p.data)
        print(f"[site {site}] round {rnd} loss {loss.item():.4f} local {local:.2f}s round {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
