"""python spawn_keyerror.py  -- labels come from labels.json"""
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
LABELS = {f"img_{i}": i % 5 for i in range(900)}


def train(rank, world):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ['PORT']}", rank=rank, world_size=world)
    torch.set_num_threads(1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(12, 5))
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for i in range(rank, 10000, world):
        y = torch.tensor([LABELS[f"img_{i}"]])
        loss = torch.nn.functional.cross_entropy(net(torch.randn(1, 12)), y)
        opt.zero_grad(); loss.backward(); opt.step()
        if i % 100 == 0:
            print(f"[{rank}] {i} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(2,), nprocs=2)
