# skip-gram with negative samples: a large sparse table, SparseAdam, windows made by two loader workers
import torch
from torch.utils.data import DataLoader, IterableDataset

V, D, NEG = 40000, 96, 6


class Windows(IterableDataset):
    def __iter__(self):
        w = torch.utils.data.get_worker_info()
        g = torch.Generator().manual_seed(w.seed if w else 0)
        while True:
            c = (torch.rand(2048, generator=g) ** 3 * V).long()
            o = (c + torch.randint(1, 5, (2048,), generator=g)) % V
            yield c, o, torch.randint(0, V, (2048, NEG), generator=g)


if __name__ == "__main__":
    u, v = torch.nn.Embedding(V, D, sparse=True), torch.nn.Embedding(V, D, sparse=True)
    torch.nn.init.normal_(u.weight, std=0.1); torch.nn.init.normal_(v.weight, std=0.1)
    opt = torch.optim.SparseAdam([*u.parameters(), *v.parameters()], lr=2e-3)
    for i, (c, o, n) in enumerate(DataLoader(Windows(), batch_size=None, num_workers=2)):
        e = u(c)
        good = torch.nn.functional.logsigmoid((e * v(o)).sum(1)).mean()
        bad = torch.nn.functional.logsigmoid(-(v(n) @ e[:, :, None])[..., 0]).sum(1).mean()
        loss = -(good + bad)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 50 == 0:
            print(f"batch {i} words {i * 2048 // 1000}k loss {loss.item():.4f}", flush=True)
