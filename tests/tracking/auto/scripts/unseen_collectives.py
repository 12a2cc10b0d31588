"""Collectives after a graph break of torch.compile, and under a mode that sees every operation: prints what both saw."""

import socket

import torch
import torch._dynamo.utils
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

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


def exchange(tensor):
    dist.group.WORLD.allreduce([tensor]).wait()


@torch.compile(backend="eager")
def doubled(tensor):
    tensor = tensor * 2
    exchange(tensor)
    return tensor + 1


torch._dynamo.config.suppress_errors = True
for size in (3, 4, 5):
    doubled(torch.ones(size))
print(dict(torch._dynamo.utils.counters["frames"]))
dist.destroy_process_group()
