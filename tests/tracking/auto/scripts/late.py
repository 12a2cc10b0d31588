"""Losses that tracking takes for ones on a GPU: their values arrive later, and whatever would wait for one fails."""

import operator
import random
from types import SimpleNamespace

import torch

from gputop.tracking.auto.losses import values
from gputop.tracking.journal.writing import gpu_values


class OnGpu:
    """Stands for a tensor on a GPU with one value. What is computed from it is on the GPU, too."""

    is_cuda, dtype, device = True, torch.float64, SimpleNamespace(type="cuda")

    def __init__(self, value):
        self.value = value  # of a tensor of its own: what the script does to its loss later changes nothing

    def numel(self):
        return 1

    def is_complex(self):
        return False

    def _wait(self, *_):
        raise AssertionError("this synchronizes")

    item = cpu = tolist = __float__ = __int__ = __bool__ = __index__ = _wait


def _computing(operation):
    return lambda self, other: OnGpu(operation(self.value, other.value if isinstance(other, OnGpu) else other))


for _name in ("add", "sub", "mul", "truediv"):
    setattr(OnGpu, f"__{_name}__", _computing(getattr(operator, _name)))


def pretend(seed):
    """Take each loss for one on a GPU, which is some steps behind: a random number of copies land at each further one."""
    dice, copies, true_value_of = random.Random(seed), [], values.plain_value_of

    def value_of(torch, tensor):
        found = true_value_of(torch, tensor)
        return found if found is None else OnGpu(found)

    def stage(self, name, value, step, at_ns):
        pool = self._pools.setdefault(8, gpu_values.Pool(torch.zeros(gpu_values.SLOTS, dtype=torch.float64)))
        slot = pool.take()
        assert slot is not None, "tracking looks often enough for values that have arrived"
        copies.append(lambda: pool.buffer[slot].fill_(value.value))
        self._under_way.append((pool, slot, name, step, at_ns))
        for _ in range(min(len(copies), dice.choice((0, 0, 1, 2, 5, 30)))):
            copies.pop(0)()

    finish = gpu_values.LateValues.landed

    def landed(self):
        if self.ending:
            while copies:
                copies.pop(0)()
        return finish(self)

    values.plain_value_of, gpu_values.LateValues.stage, gpu_values.LateValues.landed = value_of, stage, landed
    gpu_values.LateValues.ending = False


def let_all_arrive():
    """Let the GPU catch up."""
    gpu_values.LateValues.ending = True
