"""IVF index: k-means on a sample, then assignment of everything, then queries. No autograd anywhere."""
import sys, time
import torch

torch.set_grad_enabled(False)
K, DIM = int(sys.argv[1]) if len(sys.argv) > 1 else 512, 96
n = 0
while True:
    n += 1
    sample = torch.randn(20000, DIM)
    cent = sample[torch.randperm(len(sample))[:K]].clone()
    for it in range(12):
        d = torch.cdist(sample, cent)
        own = d.argmin(1)
        cent.zero_().index_add_(0, own, sample)
        cent /= torch.bincount(own, minlength=K).clamp(min=1)[:, None]
        print(f"index {n}: kmeans iter {it} objective {d.min(1).values.mean():.4f}", flush=True)
    lists = torch.zeros(K, dtype=torch.long)
    for part in range(20):
        lists += torch.bincount(torch.cdist(torch.randn(8000, DIM), cent).argmin(1), minlength=K)
    print(f"index {n}: {int(lists.sum())} vectors, longest list {int(lists.max())}, imbalance {float(lists.float().pow(2).sum() * K / lists.sum() ** 2):.3f}", flush=True)
    t = time.time()
    for q in range(50):
        torch.cdist(torch.randn(64, DIM), cent).topk(8, largest=False)
    print(f"index {n}: 3200 queries in {time.time() - t:.2f}s", flush=True)
    time.sleep(3)
