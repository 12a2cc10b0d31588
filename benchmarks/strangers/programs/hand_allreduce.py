"""data parallelism by hand: spawn, broadcast the weights, sum the gradients, divide"""
import os, socket
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def average(model, n):
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    dist.all_reduce(flat)
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at:at + p.numel()].view_as(p) / n)
        at += p.numel()


def worker(rank, n, port):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n))
    dist.init_process_group('gloo')
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.Tanh(), torch.nn.Linear(512, 256))
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    gen = torch.Generator().manual_seed(100 + rank)
    for step in range(10**6):
        x = torch.randn(128, 256, generator=gen)
        loss = (model(x) - x.flip(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        average(model, n)
        opt.step()
        if rank == 0 and step % 25 == 0:
            print(f'[{step}] mse {loss.item():.4f}', flush=True)


if __name__ == '__main__':
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    mp.spawn(worker, args=(2, port), nprocs=2)
