"""``gputop.watch(model)``: records what the model is, and how ``nn.DataParallel`` splits its batches.

Reads only shapes, on the host: nothing here touches a value or waits for a device. The formulas are those of
``tensor.chunk``, which DataParallel's scatter uses; the tests compare them with torch's own results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any

from gputop.facts.parallel import DataParallel
from gputop.tracking import evidence
from gputop.tracking.describe import describe_model
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.recorder import Recorder

UNEVEN_BELOW = 0.75
"""A call counts as uneven if its smallest share of rows over its largest is below this (docs/rules.md#b02)."""
LEAVES_MAX = 64
"""At most this many tensors of a call's arguments are read."""
WRITE_EVERY = 20
"""The counts are written again after this many calls while the rows stay the same."""


def replica_rows(batch: int, replicas: int) -> list[int]:
    """Return the rows of a batch that each replica gets: ``tensor.chunk``'s split, with 0 for replicas without a chunk.

    5 rows on 4 replicas split into 2, 2, 1, 0: chunks have ``ceil(batch / replicas)`` rows, and the last replica gets none.

    Raises:
        ValueError: ``replicas`` is below 1.
    """
    if replicas < 1:
        raise ValueError("at least one replica is needed")
    if batch <= 0:
        return [0] * replicas
    size = -(-batch // replicas)
    return [max(0, min(size, batch - index * size)) for index in range(replicas)]


def parts(value: Any, replicas: int, dim: int = 0) -> int:
    """Return how many pieces scatter splits an argument into: a tensor along ``dim``, a container by its smallest part.

    Anything else goes to every replica as a whole, and so sets no limit.
    """
    shape = _shape(value)
    if shape:
        size = int(shape[dim]) if -len(shape) <= dim < len(shape) else 0
        return max(1, sum(1 for rows in replica_rows(size, replicas) if rows))
    if isinstance(value, Mapping) and value:
        return min(parts(item, replicas, dim) for item in value.values())
    if isinstance(value, list | tuple) and value:
        return min(parts(item, replicas, dim) for item in value)
    return replicas


def batch_rows(value: Any, dim: int = 0) -> int | None:
    """Return the size along ``dim`` of the first tensor in an argument tree; None if there is none."""
    return next(iter(leaf_sizes(value, dim)), None)


def leaf_sizes(value: Any, dim: int = 0) -> Iterator[int]:
    """Yield the size along ``dim`` of each tensor in an argument tree, as scatter finds them."""
    shape = _shape(value)
    if shape and -len(shape) <= dim < len(shape):
        yield int(shape[dim])
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaf_sizes(item, dim)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaf_sizes(item, dim)


def _shape(value: Any) -> tuple[int, ...] | None:
    if type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "is_cuda"):
        return tuple(value.shape)
    return None


class SplitCounter:
    """Counts how a data-parallel wrapper's training calls were split."""

    def __init__(self, run: Recorder, wrapper: Any) -> None:
        self._run = run
        self._devices = [str(device) for device in wrapper.device_ids]
        self._class = type(wrapper.module).__name__
        self._calls = self._underused = self._uneven = 0
        self._rows: list[int] | None = None
        self._leaves = 0
        dim, output = getattr(wrapper, "dim", 0), getattr(wrapper, "output_device", None)
        self._dim = dim if isinstance(dim, int) else 0
        self._output = None if output is None else str(output)

    def __call__(self, wrapper: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> None:
        """Count one call (as a forward pre-hook); never changes its arguments."""
        try:
            self._count(wrapper, args, kwargs or {})
        except Exception as error:  # noqa: BLE001 - the user's forward runs next, whatever its arguments are
            warn(f"watch could not read a call of {self._class} ({reason(error)}).", about=f"a call of {self._class}")

    def __reduce__(self) -> Any:
        """Copy and pickle as a hook that does nothing: both take a model with its hooks, and this one counts for one run."""
        return getattr, (nullcontext(), "__exit__")

    def _count(self, wrapper: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        torch: Any = sys.modules.get("torch")
        if not wrapper.training or torch is None or not torch.is_grad_enabled():
            return
        replicas = len(self._devices)
        tree = args or kwargs
        sizes = [size for tree_ in (args, kwargs) for size in islice(leaf_sizes(tree_, self._dim), LEAVES_MAX)]
        batch = batch_rows(tree, self._dim)
        used = parts(tree, replicas, self._dim)
        rows = None if batch is None else replica_rows(batch, replicas)
        if rows is not None:
            rows = [share if index < used else 0 for index, share in enumerate(rows)]
        self._calls += 1
        self._underused += used < replicas
        shares = [share for share in rows or () if share]
        self._uneven += bool(shares) and min(shares) / max(shares) < UNEVEN_BELOW
        if rows != self._rows or len(sizes) != self._leaves or self._calls % WRITE_EVERY == 0 or self._calls == 1:
            self._rows, self._leaves = rows, len(sizes)
            self._run.fact(
                "data_parallel",
                DataParallel.filled(
                    device_ids=self._devices,
                    replicas=replicas,
                    batch_rows=batch,
                    rows_per_device=rows,
                    calls=self._calls,
                    underused_calls=self._underused,
                    uneven_calls=self._uneven,
                    module=self._class,
                    output_device=self._output,
                    dim=self._dim,
                    tensor_leaves=len(sizes),
                    leaf_sizes=sizes,
                ),
            )


def is_data_parallel(model: Any) -> bool:
    """Return whether the wrapper splits its batch over devices: nn.DataParallel, or a class with its attributes.

    DistributedDataParallel also has them on CUDA, but passes each rank's whole batch to one device.
    """
    if any(base.__name__ == "DistributedDataParallel" for base in type(model).__mro__):
        return False
    if type(model).__name__ == "DataParallel":
        return bool(getattr(model, "device_ids", None))
    return all(hasattr(model, name) for name in ("module", "device_ids", "dim")) and bool(model.device_ids)


def watch(model: Any, run: Recorder) -> None:
    """Record the facts ``model``, ``torch`` and, for a data-parallel wrapper, ``data_parallel``.

    Pass the wrapper if there is one: ``watch(nn.DataParallel(net))``. docs/facts.md says what each fact holds;
    ``data_parallel`` counts calls in training mode with gradients enabled.
    """
    if run.disabled:
        return
    try:
        if hasattr(model, "_modules"):  # only torch modules can be described
            run.fact("model", describe_model(model, []))
        found = evidence.torch_fact(ask_cuda=True)
        if found is not None:
            run.fact("torch", found)
        if is_data_parallel(model):
            model.register_forward_pre_hook(SplitCounter(run, model), with_kwargs=True)
    except Exception as error:  # noqa: BLE001 - a model may be any object; the training continues
        warn(f"watch could not inspect {type(model).__name__} ({reason(error)}).")


def splits(module: Any) -> bool:
    """Return whether a module is a DataParallel with devices whose calls ``watch`` does not already count."""
    watched = any(isinstance(hook, SplitCounter) for hook in module._forward_pre_hooks.values())
    return not watched and is_data_parallel(module) and not hasattr(module, "process_group")
