"""Follows what a DataLoader yields: how long the loop waited for it, its samples and tokens, and the epoch.

Only loaders whose batches are followed by a backward count as training. The number of rows in a batch is the first dimension of
its first tensor, checked against the loader's batch size, because some loaders collate time-first.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from gputop.facts.setup import Loader, Sampler
from gputop.tracking.auto.readings.batches import Batches
from gputop.tracking.journal.handlers import let_through

_DEPTH = 6
_KNOWN = ("torch", "accelerate")
_INTEGERS = ("torch.int64", "torch.int32")
_HOLDERS = ("data", "_tensordict")
"""Where Hugging Face's BatchEncoding, any UserDict, and a TensorDict keep their tensors."""


class Feed:
    """One DataLoader and its iterations."""

    def __init__(self) -> None:
        self._batch_size: int | None = None
        self.iterations = 0
        """How many iterations over it have begun for training, including the current one."""
        self._trained = True
        """Whether a backward has followed a batch of the current iteration: a peek or an evaluation is not a pass."""
        self.earlier = 0
        """How many iterations earlier loaders have made over its dataset: scripts may create a loader for each epoch."""
        self._dataset: weakref.ref[Any] | None = None
        self.rows = self.tokens = 0
        """Rows and tokens fetched but not yet seen in a backward."""
        self.trains = False
        self.epoch: int | None = None
        self.sampler_epoch: int | None = None
        self.epoch_was_set: bool | None = None
        """Whether the sampler's ``set_epoch`` was called between iterations; None before the second one."""
        self.exhausted = False
        """Whether the last iteration was exhausted."""
        self.handed_out = 0
        """Batches of the current iteration."""
        self.began_s = 0.0
        """How long the current iteration took to begin; with workers, to start them."""
        self.batches = Batches()
        self._shape: Any = None
        self._dtype: Any = None
        """Shape and dtype of the previous batch; while they stay the same, so do its rows and tokens."""
        self._rows = self._tokens = 0
        self._lengths: dict[str, Any] = {}
        self._described: dict[str, Any] = {}
        self._sampler: dict[str, Any] | None = None

    def begin(self, loader: Any, seconds: float, before: Feed | None = None) -> None:
        """Note that an iteration over ``loader`` begins, and how long that took; ``before``: the last feed that trained."""
        self.began_s = seconds
        self._batch_size = _int(getattr(loader, "batch_size", None))
        self._shape = None
        if self._trained:
            self.iterations += 1
            self._trained = False
        if self.iterations == 1:
            self._dataset = _reference(getattr(loader, "dataset", None))
            self.earlier = before.trained_passes if before is not None and before.exhausted and self._reads_as(before) else 0
        self.rows = self.tokens = 0
        now = _sampler_epoch(_sampler(loader))
        if self.iterations > 1 and now is not None:
            self.epoch_was_set = bool(self.epoch_was_set) or now != self.sampler_epoch
        self.sampler_epoch = now
        self.epoch = now if now and (self.iterations == 1 or self.epoch_was_set) else self.passes - 1
        self.exhausted, self.handed_out = False, 0
        self.batches.begin(self.epoch)
        if self.iterations == 1:
            self._lengths = lengths(loader)
        # Now, because a loader created only for the loop may be freed while the loop runs.
        self._described, self._sampler = {**describe(loader), **self._lengths}, self._describe_sampler(loader)

    def begin_training(self) -> None:
        """Count its iterations from the current one on: another training of this process has begun with it."""
        self.iterations, self.earlier = 1, 0
        self.epoch = self.sampler_epoch or 0

    @property
    def passes(self) -> int:
        """How many iterations over its dataset have begun for training."""
        return self.earlier + self.iterations

    @property
    def trained_passes(self) -> int:
        """How many of them a backward followed so far."""
        return self.passes - (not self._trained)

    def _reads_as(self, other: Feed) -> bool:
        mine, its = (feed._dataset() if feed._dataset is not None else None for feed in (self, other))
        return mine is not None and mine is its

    def fetched(self, batch: Any, step: int, wanted_from: int) -> None:
        """Count a batch for training in ``step``; it is checksummed from step ``wanted_from`` on."""
        self.handed_out += 1
        kind = type(batch)
        tensor = batch[0] if (kind is list or kind is tuple) and batch else None
        if tensor is None or type(tensor).__name__ != "Tensor" or not tensor.dim():
            tensor = first_tensor(batch)
            if tensor is None:
                return
        if step >= wanted_from or self.batches.counting:
            self.batches.take(tensor, step, wanted_from)
        shape, dtype = tensor.shape, tensor.dtype
        if shape != self._shape or dtype is not self._dtype:
            self._shape, self._dtype = shape, dtype
            self._rows, self._tokens = counts(shape, is_integer(tensor) and not is_table(batch), self._batch_size)
        self.rows += self._rows
        self.tokens += self._tokens

    def ended(self) -> None:
        """Note that the loader has no more batches."""
        self.exhausted = True
        self.batches.ended()

    def hand_out(self, batches: int) -> None:
        """Count batches of the training that were not inspected."""
        self.handed_out += batches
        self._trained = self._trained or batches > 0

    def take(self) -> tuple[int, int]:
        """Return the rows and tokens that were fetched since the last call: backward runs on them now."""
        self._trained = True
        found = self.rows, self.tokens
        self.rows = self.tokens = 0
        return found

    def feeds_training(self) -> bool:
        """Note that a backward follows its batches; return whether that is new."""
        if self.trains:
            return False
        self.trains = True
        return True

    def record_facts(self, run: Any) -> None:
        """Record what this loader and its sampler are, and its progress, if that changed."""
        loader = Loader.filled(**self._described, iterations=self.iterations, exhausted=self.exhausted, batches=self.handed_out)
        for name, value in (("loader", loader), ("sampler", self._sampler)):
            if value is not None and run.facts.get(name) != value:
                run.fact(name, value)

    def _describe_sampler(self, loader: Any) -> dict[str, Any] | None:
        sampler = _sampler(loader)
        if sampler is None:
            return None
        kind = type(sampler).__name__
        shuffle = {"RandomSampler": True, "SequentialSampler": False}.get(kind, getattr(sampler, "shuffle", None))
        return Sampler.filled(
            type=kind,
            shuffle=shuffle if isinstance(shuffle, bool) else None,
            set_epoch=self.epoch_was_set if hasattr(sampler, "set_epoch") else None,
            replicas=_int(getattr(sampler, "num_replicas", None)),
            rank=_int(getattr(sampler, "rank", None)),
        )


def _reference(dataset: Any) -> weakref.ref[Any] | None:
    try:
        return weakref.ref(dataset)
    except TypeError:  # such as a list, which cannot be recognized later
        return None


def describe(loader: Any) -> dict[str, Any]:
    """Return a loader's settings; reads plain attributes, never the dataset itself."""
    batch_size = _int(getattr(loader, "batch_size", None))
    if batch_size is None:
        batch_size = _int(getattr(getattr(loader, "batch_sampler", None), "batch_size", None))
    return {
        "type": type(loader).__name__,
        "dataset": type(getattr(loader, "dataset", None)).__name__,
        "batch_size": batch_size,
        "num_workers": _int(getattr(loader, "num_workers", None)),
        "pin_memory": bool(getattr(loader, "pin_memory", False)),
        "drop_last": bool(getattr(loader, "drop_last", False)),
        "persistent_workers": bool(getattr(loader, "persistent_workers", False)),
        "prefetch_factor": _int(getattr(loader, "prefetch_factor", None)),
    }


def lengths(loader: Any) -> dict[str, Any]:
    """Return the number of batches and samples; None if finding out would run code that torch has not run anyway.

    A sampler of torch or Accelerate has asked the dataset for its length at creation. Any other sampler, or a batch sampler
    of the user's, may generate all batches to count them.
    """
    dataset = getattr(loader, "dataset", None)
    iterable = any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)
    found: dict[str, Any] = {"length": None, "dataset_length": None, "iterable": iterable}
    asked = [item for item in (_sampler(loader), getattr(loader, "batch_sampler", None)) if item is not None]
    if iterable or not asked or any(type(item).__module__.partition(".")[0] not in _KNOWN for item in asked):
        return found
    value: Any
    for name, value in (("length", loader), ("dataset_length", dataset)):
        try:
            found[name] = len(value)
        except Exception as error:  # noqa: BLE001 - __len__ is the user's code, and may be missing
            let_through(error)
            continue
    return found


def is_integer(tensor: Any) -> bool:
    """Return whether a tensor's dtype may hold tokens."""
    return not tensor.is_floating_point() and str(tensor.dtype) in _INTEGERS


def is_table(batch: Any) -> bool:
    """Return whether a batch holds numbers next to its classes, which then are not tokens: (classes, numbers, target)."""
    between = batch[1:-1] if isinstance(batch, list | tuple) else ()
    return any(type(item).__name__ == "Tensor" and item.dim() == 2 and item.is_floating_point() for item in between)


def first_tensor(value: Any, depth: int = 0) -> Any | None:
    """Return the first tensor with at least one dimension in a batch; None if there is none."""
    if isinstance(value, list | tuple):
        items: Any = value
    elif hasattr(type(value), "grad_fn"):
        return value if len(value.shape) else None
    else:
        items = dict.values(_held(value))
    if depth >= _DEPTH:
        return None
    for item in items:
        found = first_tensor(item, depth + 1)
        if found is not None:
            return found
    return None


def _held(value: Any) -> dict[Any, Any]:
    """Return the dictionary with the tensors of an object, which it is or which it keeps; runs none of the script's code.

    A property, or a mapping of the script's own, may load what is asked for, or compute it.
    """
    if isinstance(value, dict):
        return value
    own = getattr(value, "__dict__", None)
    found = (own.get(name) for name in _HOLDERS) if type(own) is dict else ()
    return next((held for held in found if isinstance(held, dict)), {})


def counts(shape: Sequence[int], integers: bool, batch_size: int | None) -> tuple[int, int]:
    """Return (samples, tokens) of a batch; 0 means unknown. Tokens are the elements of a two-dimensional integer batch."""
    rows = shape[0]
    tokens = shape[0] * shape[1] if integers and len(shape) == 2 else 0
    if batch_size is not None and rows > batch_size:
        # More rows than requested: dimension 0 is time, or the collate function uses a layout of its own.
        rows = shape[1] if len(shape) > 1 and shape[1] <= batch_size else 0
    return rows, tokens


def _sampler(loader: Any) -> Any:
    sampler = getattr(loader, "sampler", None)
    if hasattr(sampler, "set_epoch") or getattr(loader, "batch_size", None) is not None:
        return sampler
    return getattr(getattr(loader, "batch_sampler", None), "sampler", None) or sampler


def _sampler_epoch(sampler: Any) -> int | None:
    return _int(getattr(sampler, "epoch", None)) if hasattr(sampler, "set_epoch") else None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
