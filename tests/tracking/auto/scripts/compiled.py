"""torch.compile: of a model, and of its evaluation and the model again when training has long begun.

Then collectives under a mode that sees every operation, and after a graph break: prints what both saw.
"""

import socket

import torch
import torch._dynamo.utils
import torch.distributed as dist
from said import say
from torch.overrides import TorchFunctionMode

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
fast = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []


def step(net, inputs):
    loss = net(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


for _ in range(5):
    step(fast, torch.randn(10, 4))


@torch.compile(backend="eager", fullgraph=True)
def check(inputs):
    return model(inputs).abs().max()


with torch.no_grad():
    print(check(torch.randn(6, 4)).item())
later = torch.compile(model, backend="eager", fullgraph=True)
for _ in range(3):
    step(later, torch.randn(10, 4))
counters = torch._dynamo.utils.counters
print({name: dict(counters[name]) for name in ("frames", "graph_break", "recompiles", "stats")})

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
seen = []


class Seeing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


tensor = torch.ones(4)
with Seeing():
    dist.group.WORLD.allreduce([tensor]).wait()
print(seen)
assert seen == []


def exchange(tensor):
    dist.group.WORLD.allreduce([tensor]).wait()


@torch.compile(backend="eager")
def doubled(tensor):
    tensor = tensor * 2
    exchange(tensor)
    return tensor + 1


torch._dynamo.config.suppress_errors = True
counters["frames"].clear()
for size in (3, 4, 5):
    doubled(torch.ones(size))
print(dict(counters["frames"]))
dist.destroy_process_group()
say(len(losses), [model], loss=losses)
