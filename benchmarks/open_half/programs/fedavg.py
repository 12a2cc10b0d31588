"""Federated averaging: two hospitals with very different amounts of data, some local epochs, one average per round."""
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = (6000, 1800)
LOCAL_EPOCHS = 1


def client(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=len(SIZES))
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(rank)
    X = torch.randn(SIZES[rank], 40, generator=gen) + 0.3 * rank
    Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).long()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
    weight = SIZES[rank] / sum(SIZES)
    for rnd in range(10**6):
        opt = torch.optim.SGD(model.parameters(), 0.05)
        for _ in range(LOCAL_EPOCHS):
            for idx in torch.randperm(len(X), generator=gen).split(32):
                opt.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(X[idx]), Y[idx])
                loss.backward()
                opt.step()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(weight)
                dist.all_reduce(p)
            acc = (model(X).argmax(1) == Y).float().mean().item()
        print(f"[client {rank}] round {rnd} loss {loss.item():.4f} local acc {acc:.3f}", flush=True)


if __name__ == "__main__":
    mp.spawn(client, args=(int(os.environ.get("PORT", 29641)),), nprocs=len(SIZES))
