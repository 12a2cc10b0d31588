"""Megatron's MLP on two workers: the first layer is cut by columns, the second by rows."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(40 + r)
D, H = 96, 512 // n


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        dist.all_reduce(g)
        return g


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


up, down = torch.nn.Linear(D, H), torch.nn.Linear(H, D, bias=False)
opt = torch.optim.Adam([*up.parameters(), *down.parameters()], 1e-3)
g = torch.Generator().manual_seed(9)  # both need the same batch
for it in range(10**6):
    x = torch.randn(256, D, generator=g)
    y = Sum.apply(down(torch.relu(up(Same.apply(x)))))
    loss = (y - x.roll(1, 1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if r == 0 and it % 50 == 0:
        print(f"{it} {loss.item():.5f}", flush=True)
