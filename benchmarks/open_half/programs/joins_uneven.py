"""DDP over files of unequal length, with Join: torchrun --nproc-per-node=2 joins_uneven.py"""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP


def shard(rank):
    # hospital A has a few patients more than hospital B
    g = torch.Generator().manual_seed(100 + rank)
    n = 60 + 3 * rank
    return [(torch.randn(32, 40, generator=g), torch.randint(0, 2, (32, 1), generator=g).float()) for _ in range(n)]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(40, 400), torch.nn.ReLU(), torch.nn.Linear(400, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loss_fn = torch.nn.BCEWithLogitsLoss()
    batches = shard(rank)
    for epoch in range(100000):
        order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(epoch)).tolist()
        model.train()
        seen = 0.0
        with Join([model]):
            for k in order:
                x, y = batches[k]
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                seen += loss.item()
        if rank == 0 and epoch % 5 == 0:
            print(f"epoch {epoch} train_loss {seen / len(order):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
