"""Two stages of a pipeline; forward activations go down, gradients come up."""
import os
import torch
import torch.distributed as dist


def stage(rank):
    torch.manual_seed(rank)
    return torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Tanh())


def main():
    dist.init_process_group("gloo")
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    part = stage(rank)
    opt = torch.optim.SGD(part.parameters(), 1e-2)
    for it in range(10**6):
        if rank == 0:
            h = part(torch.randn(32, 128))
            if it % 60 == 59:  # every minute or so the stages exchange their norms
                norm = torch.zeros(1)
                dist.recv(norm, other)
            dist.send(h.detach(), other)
            grad = torch.empty_like(h)
            dist.recv(grad, other)
            h.backward(grad)
        else:
            x = torch.empty(32, 128)
            dist.recv(x, other)
            x.requires_grad_()
            loss = part(x).pow(2).mean()
            loss.backward()
            dist.send(x.grad, other)
            if it % 60 == 59:
                dist.send(torch.ones(1), other)
            if it % 10 == 0:
                print("it", it, "loss", round(loss.item(), 5), flush=True)
        opt.step(); opt.zero_grad()


torch.set_num_threads(1)
main()
