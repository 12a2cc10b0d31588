"""Data parallel from scratch, for machines without CUDA: what nn.DataParallel does, on virtual GPUs.

nn.DataParallel does nothing without CUDA: it calls the module unchanged. This engine takes its place. Each virtual GPU is a
worker thread pinned to its own core (torch computes outside Python's lock, so the threads run in parallel).

One step is:

    scatter      torch.chunk splits the batch, one piece per replica (a small batch may give fewer pieces!)
    replicate    each replica gets the master's parameters
    forward      all replicas at once, each on its piece
    gather       the outputs become one tensor again
    backward     the gradient of the output is split in the same way, and every replica runs backward on its own piece
    reduce       the replicas' gradients are added up into the master's
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

import devices

T = TypeVar("T")


class DataParallel(nn.Module):
    """nn.DataParallel for virtual GPUs: same name and attributes, same split, same gradients.

    Only parameters get gradients, not inputs; the module must return one tensor.
    """

    def __init__(self, module: nn.Module, places: Sequence[devices.Place], dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.device_ids = list(range(len(places)))
        self.output_device = 0
        # One thread per virtual GPU, for as long as the engine lives.
        self.workers = [devices.Worker(place) for place in places]

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the module's output for the whole batch."""
        pieces = scatter((inputs, named), len(self.workers), self.dim)
        output: Tensor = _Replicated.apply(_Step(self, pieces), *self.module.parameters())  # type: ignore[no-untyped-call]
        return output

    def on_all(self, work: Callable[[int], T], count: int) -> list[T]:
        """Run ``work(i)`` on the first ``count`` virtual GPUs at once and wait for all."""
        futures = [worker.submit(work, index) for index, worker in enumerate(self.workers[:count])]
        return [future.result() for future in futures]


class _Step:
    """One forward pass: the pieces of the batch, and what each replica needs for its backward pass."""

    def __init__(self, engine: DataParallel, pieces: Sequence[Any]) -> None:
        self.engine = engine
        self.pieces = pieces
        self.training = torch.is_grad_enabled()
        self.autocast = torch.is_autocast_enabled("cpu")
        self.replicas: list[nn.Module] = []
        self.outputs: list[Tensor] = []

    def forward(self) -> Tensor:
        done = self.engine.on_all(self._forward_one, len(self.pieces))
        self.replicas, self.outputs = [replica for replica, _ in done], [output for _, output in done]
        # Replica 0 provides the module's running averages (batch norm), as in nn.DataParallel.
        for kept, new in zip(self.engine.module.buffers(), self.replicas[0].buffers(), strict=True):
            kept.copy_(new)
        return torch.cat([output.detach() for output in self.outputs], self.engine.dim)

    def _forward_one(self, index: int) -> tuple[nn.Module, Tensor]:
        replica = replicate(self.engine.module)
        inputs, named = self.pieces[index]
        # Grad mode and autocast are set per thread.
        with torch.set_grad_enabled(self.training), torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            return replica, replica(*inputs, **named)

    def backward(self, gradient: Tensor) -> list[Tensor | None]:
        sizes = [output.shape[self.engine.dim] for output in self.outputs]
        parts = gradient.split(sizes, self.engine.dim)

        def backward_one(index: int) -> list[Tensor | None]:
            self.outputs[index].backward(parts[index])
            return [parameter.grad for parameter in self.replicas[index].parameters()]

        gradients = self.engine.on_all(backward_one, len(self.pieces))
        for index, own in enumerate(gradients):
            held = [*self.replicas[index].parameters(), *self.replicas[index].buffers(), *own]
            self.engine.workers[index].holds([*held, *_tensors(self.pieces[index])])
        return [_sum(column) for column in zip(*gradients, strict=True)]


class _Replicated(torch.autograd.Function):
    """The whole step as one autograd operation on the master's parameters, so that loss.backward() reaches them."""

    @staticmethod
    def forward(ctx: Any, step: _Step, *_parameters: Tensor) -> Tensor:
        ctx.step = step
        return step.forward()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, *ctx.step.backward(gradient)


def scatter(value: Any, count: int, dim: int = 0) -> list[Any]:
    """Return each replica's part of ``value``, as nn.DataParallel's scatter does it.

    Tensors are split. A container yields as many pieces as its element with the fewest: a mask with one row leaves one piece,
    and the rest of the batch is lost. Anything else goes to every replica as a whole, and then they all do the same work.
    """
    if isinstance(value, Tensor):
        return list(value.chunk(count, dim))
    if isinstance(value, tuple | list) and value:
        kind = type(value)
        # Deliberately not strict: the shortest decides, as in torch.
        return [kind(parts) for parts in zip(*(scatter(part, count, dim) for part in value), strict=False)]
    if isinstance(value, Mapping) and value:
        columns = zip(*(scatter(part, count, dim) for part in value.values()), strict=False)
        return [dict(zip(value, parts, strict=True)) for parts in columns]
    return [value] * count


def replicate(module: nn.Module, copies: dict[Tensor, Tensor] | None = None) -> nn.Module:
    """Return a copy with its own parameters and buffers; hooks and plain attributes stay shared with the master."""
    copies = {} if copies is None else copies  # original -> copy: a tensor shared by two layers stays shared

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


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for part in value for tensor in _tensors(part)] if isinstance(value, tuple | list) else []


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    found = [gradient for gradient in gradients if gradient is not None]
    return torch.stack(found).sum(dim=0) if found else None
