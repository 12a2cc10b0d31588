"""Data parallel from scratch, for machines without CUDA: what nn.DataParallel does, on virtual GPUs.

nn.DataParallel does nothing without CUDA: it calls the module as it is. This engine takes its place. Each virtual GPU
is a worker thread pinned to its own core (torch computes outside Python's lock, so threads do work at the same time).
One step is:

    scatter      the batch is cut with torch.chunk, one piece for each replica (a small batch may give fewer pieces!)
    replicate    each replica gets the master's parameters
    forward      all replicas at once, each on its piece
    gather       the outputs become one tensor again
    backward     the gradient of the output is cut in the same way, every replica goes back through its own piece
    reduce       the replicas' gradients are added up into the master's
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

import devices

T = TypeVar("T")


class CpuDataParallel(nn.Module):
    """nn.DataParallel for virtual GPUs: same attributes, same split, same gradients."""

    def __init__(self, module: nn.Module, places: Sequence[devices.Place], dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = list(range(len(places)))
        self.places = list(places)
        # One thread for each virtual GPU, for as long as the engine lives.
        self._workers = [ThreadPoolExecutor(1, thread_name_prefix=f"virtual-gpu-{place.virtual_index}") for place in places]
        started = [worker.submit(devices.start_thread, place) for worker, place in zip(self._workers, places, strict=True)]
        self.thread_ids = [future.result() for future in started]
        self._held_bytes = [0] * len(places)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the module's output for the whole batch."""
        step = _Step(self, inputs.chunk(len(self.places), self.dim))
        output: Tensor = _Replicated.apply(step, *self.module.parameters())  # type: ignore[no-untyped-call]
        return output

    def on_all(self, work: Callable[[int], T], count: int) -> list[T]:
        """Run ``work(i)`` on the first ``count`` virtual GPUs at once and wait for all."""
        futures: list[Future[T]] = [self._workers[i].submit(work, i) for i in range(count)]
        return [future.result() for future in futures]

    def claims(self) -> list[tuple[int, int, int]]:
        """Return (virtual index, thread id, bytes held) of each replica: its parameters, gradients and piece of the batch."""
        indices = [place.virtual_index or 0 for place in self.places]
        return list(zip(indices, self.thread_ids, self._held_bytes, strict=True))

    def count_bytes(self, index: int, tensors: Sequence[Tensor | None]) -> None:
        """Note what replica ``index`` holds."""
        self._held_bytes[index] = sum(t.numel() * t.element_size() for t in tensors if t is not None)


class _Step:
    """One forward pass: the pieces of the batch, and what each replica needs to go back."""

    def __init__(self, engine: CpuDataParallel, pieces: Sequence[Tensor]) -> None:
        self.engine = engine
        self.pieces = pieces
        self.training = torch.is_grad_enabled()
        self.replicas: list[nn.Module] = []
        self.outputs: list[Tensor] = []

    def forward(self) -> Tensor:
        done = self.engine.on_all(self._forward_one, len(self.pieces))
        self.replicas, self.outputs = [replica for replica, _ in done], [output for _, output in done]
        # Replica 0 speaks for all where the module keeps averages (batch norm), as in nn.DataParallel.
        for kept, new in zip(self.engine.module.buffers(), self.replicas[0].buffers(), strict=True):
            kept.copy_(new)
        return torch.cat([output.detach() for output in self.outputs], self.engine.dim)

    def _forward_one(self, index: int) -> tuple[nn.Module, Tensor]:
        replica = replicate(self.engine.module)
        with torch.set_grad_enabled(self.training):  # each thread has a grad mode of its own
            return replica, replica(self.pieces[index])

    def backward(self, gradient: Tensor) -> list[Tensor | None]:
        sizes = [output.shape[self.engine.dim] for output in self.outputs]
        parts = gradient.split(sizes, self.engine.dim)

        def backward_one(index: int) -> list[Tensor | None]:
            self.outputs[index].backward(parts[index])
            return [parameter.grad for parameter in self.replicas[index].parameters()]

        gradients = self.engine.on_all(backward_one, len(self.pieces))
        for index in self.engine.device_ids[: len(self.pieces)]:
            held = [*self.replicas[index].parameters(), *self.replicas[index].buffers(), *gradients[index]]
            self.engine.count_bytes(index, [*held, self.pieces[index]])
        return [_sum(column) for column in zip(*gradients, strict=True)]


class _Replicated(torch.autograd.Function):
    """The whole step as one operation of the master's parameters, so that loss.backward() finds its way."""

    @staticmethod
    def forward(ctx: Any, step: _Step, *_parameters: Tensor) -> Tensor:
        ctx.step = step
        return step.forward()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, *ctx.step.backward(gradient)


def replicate(module: nn.Module, copies: dict[Tensor, Tensor] | None = None) -> nn.Module:
    """Return a copy with parameters and buffers of its own; hooks and plain attributes stay shared with the master."""
    copies = {} if copies is None else copies  # original -> copy: a tensor that two layers share stays shared

    def copied(tensor: Tensor | None) -> Tensor | None:
        if tensor is not None and tensor not in copies:
            copies[tensor] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return None if tensor is None else copies[tensor]

    replica = copy.copy(module)
    replica._is_replica = True  # type: ignore[assignment]
    replica._parameters = {name: copied(parameter) for name, parameter in module._parameters.items()}  # type: ignore[misc]
    replica._buffers = {name: copied(buffer) for name, buffer in module._buffers.items()}
    replica._modules = {name: None if child is None else replicate(child, copies) for name, child in module._modules.items()}
    return replica


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    found = [gradient for gradient in gradients if gradient is not None]
    return torch.stack(found).sum(dim=0) if found else None
