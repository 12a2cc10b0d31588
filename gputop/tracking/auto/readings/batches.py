"""Fingerprints of the batches that a rank trains on, and of its weights; and the input size of each call.

Readers compare them between ranks and epochs.

A batch's fingerprint is the CRC of the first bytes of its first tensor, if that is on the CPU; the bytes are read in place,
without a torch operation. The weights' fingerprint is the CRC and the sum of a few values from a few parameters, the same ones
on each rank. For weights on a GPU it is only the sum, computed on the device and read once it has arrived (``gpu_values``);
tests/gpu tests that on a GPU.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any
from zlib import crc32

from gputop.facts import measured
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.writing.gpu_values import LateValues

BATCH_BYTES = 256
RECENT_BATCHES = 16
CALLED_STEPS = 32
EPOCH_BATCHES = 4
"""This many first batches make up an epoch's checksum."""
RECENT_EPOCHS = 4
"""How many of the newest epochs' checksums are kept."""
PROBE_EVERY = 10
RECENT_PROBES = 8
PROBED_PARAMETERS = 8
PROBED_VALUES = 32
"""Values read from each probed parameter."""
GPU_PARAMETERS = 2
"""Parameters probed on a GPU; each costs a kernel or two."""
_FORMATS = {"torch.float32": "f", "torch.float64": "d", "torch.float16": "e", "torch.bfloat16": "H"}


class Batches:
    """Checksums of the batches of one loader."""

    def __init__(self) -> None:
        self.recent: deque[tuple[int, int]] = deque(maxlen=RECENT_BATCHES)
        self.epochs: deque[tuple[int, int]] = deque(maxlen=RECENT_EPOCHS)
        self.rows: int | None = None
        self.elements: int | None = None
        self._first: int | None = None
        self.counting = True
        """Whether the next batch is part of an epoch's checksum."""
        self._seen = 0
        self._checksum = 0
        self._blind = False

    def begin(self, epoch: int) -> None:
        """Note that an iteration over the loader begins."""
        self._first, self._seen, self._checksum = epoch, 0, 0
        self.counting = not self._blind

    def take(self, tensor: Any, step: int, wanted_from: int) -> None:
        """Checksum the first tensor of a batch for ``step``.

        Only at the beginning of an epoch, and from step ``wanted_from`` on, shortly before the fact is recorded.
        """
        if self._blind or (step < wanted_from and self._seen >= EPOCH_BATCHES):
            return
        try:
            if tensor.is_cpu and tensor.is_contiguous() and _has_memory(tensor):
                address, self.elements = tensor.data_ptr(), tensor.numel()
                self.rows = tensor.shape[0]
                size = self.elements * tensor.element_size()
                if address and size:
                    checksum = crc32(ctypes.string_at(address, size if size < BATCH_BYTES else BATCH_BYTES))
                    self.recent.append((step, checksum))
                    if self._seen < EPOCH_BATCHES:
                        self._count(checksum)
        except Exception as error:  # noqa: BLE001 - sparse, fake and wrapped tensors own no bytes
            let_through(error)
            self._blind, self.counting = True, False

    def _count(self, checksum: int) -> None:
        self._checksum = crc32(checksum.to_bytes(4, "little"), self._checksum)
        self._seen += 1
        if self._seen == EPOCH_BATCHES and self._first is not None:
            self.counting = False
            self.epochs.append((self._first, self._checksum))

    def ended(self) -> None:
        """Complete the checksum of an epoch with fewer than four batches: the loader has no more."""
        if 0 < self._seen < EPOCH_BATCHES and self._first is not None:
            self.epochs.append((self._first, self._checksum))
            self._seen, self.counting = EPOCH_BATCHES, False

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``batches``; None before the first batch."""
        if not self.recent:
            return None
        return measured.Batches.filled(
            recent=[list(pair) for pair in self.recent],
            epochs=[list(pair) for pair in self.epochs],
            rows=self.rows,
            elements=self.elements,
        )


class Called:
    """The input size of the training's calls, by step: a script may crop or pack what its loader yields."""

    def __init__(self) -> None:
        self._sizes: deque[list[int]] = deque(maxlen=CALLED_STEPS)
        self._blind = False

    def take(self, given: Iterable[Any], step: int) -> None:
        """Add the arguments of a call in ``step``; the calls of one step are summed."""
        if self._blind:
            return
        rows = elements = 0
        try:
            for value in given:
                parts = value if isinstance(value, list | tuple) else (value,)
                tensors = [part for part in parts if hasattr(type(part), "grad_fn") and len(part.shape)]
                if tensors:
                    # A list of images of different sizes has one row per image.
                    rows = tensors[0].shape[0] if value is tensors[0] else len(tensors)
                    elements = sum(tensor.numel() for tensor in tensors)
                    break
        except Exception as error:  # noqa: BLE001 - nested, fake and wrapped tensors have no plain shape
            let_through(error)
            self._blind = True
        if type(rows) is not int or type(elements) is not int or not elements:
            return
        last = self._sizes[-1] if self._sizes else None
        if last is not None and last[0] == step:
            self._sizes[-1] = [step, last[1] + rows, last[2] + elements]
        else:
            self._sizes.append([step, rows, elements])

    def fact(self) -> list[list[int]] | None:
        """Return [[step, rows, elements], ...]; None before the first call."""
        return list(self._sizes) or None


class Probe:
    """Samples a few values of the trained parameters every few steps."""

    def __init__(self, torch: Any, parameters: Iterable[Any]) -> None:
        self._torch = torch
        found = [item for item in parameters if _is_plain(item) and item.requires_grad and item.numel()]
        places = (
            {round(index * (len(found) - 1) / (PROBED_PARAMETERS - 1)) for index in range(PROBED_PARAMETERS)} if found else ()
        )
        self._parameters = [weakref.ref(found[place]) for place in sorted(places)]
        dtypes = {str(found[place].dtype).removeprefix("torch.") for place in places}
        self._dtype = dtypes.pop() if len(dtypes) == 1 else None
        self._recent: deque[list[Any]] = deque(maxlen=RECENT_PROBES)
        self._values: list[Any] = []
        self._changed: deque[list[Any]] = deque(maxlen=RECENT_PROBES)
        self._late = LateValues()

    def take(self, step: int) -> None:
        """Sample the parameters now, after the step."""
        alive = [item for item in (reference() for reference in self._parameters) if item is not None]
        if not alive or not all(map(_has_memory, alive)):
            return
        if all(item.is_cpu for item in alive):
            self._on_cpu(alive, step)
        elif all(item.is_cuda for item in alive) and not self._torch.cuda.is_current_stream_capturing():
            self._on_gpu(alive[-GPU_PARAMETERS:], step)

    def _on_cpu(self, parameters: list[Any], step: int) -> None:
        checksum, total = 0, 0.0
        found: list[Any] = []
        for item in parameters:
            address, width = item.data_ptr(), item.element_size()
            form = _FORMATS.get(str(item.dtype))
            count = min(PROBED_VALUES, item.numel())
            if not address or form is None or not item.is_contiguous():
                continue
            raw = ctypes.string_at(address, count * width)
            checksum = crc32(raw, checksum)
            values: tuple[Any, ...] = struct.unpack(f"={count}{form}", raw)
            found += values
            if form == "H":  # bfloat16 is the upper half of a float32
                values = struct.unpack(f"={count}f", struct.pack(f"={count}I", *(value << 16 for value in values)))
            total += sum(values)
        self._recent.append([step, checksum, total])
        if found and len(found) == len(self._values):
            self._changed.append([step, round(sum(map(operator.ne, found, self._values)) / len(found), 4)])
        self._values = found

    def _on_gpu(self, parameters: list[Any], step: int) -> None:
        with self._torch.no_grad():
            parts = [item.detach().reshape(-1)[:PROBED_VALUES].float().sum() for item in parameters]
            self._late.stage("sum", parts[0] if len(parts) == 1 else parts[0] + parts[1], step, 0)

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``parameters``; None before the first sample, or before its values have arrived."""
        for _, value, step, _ in self._late.landed():
            self._recent.append([step, None, value])
        if not self._recent:
            return None
        more = {"changed": list(self._changed)} if self._changed else {}
        return measured.Parameters.filled(recent=[list(entry) for entry in self._recent], dtype=self._dtype, **more)


def _is_plain(parameter: Any) -> bool:
    """Return whether a parameter holds all of its values; a DTensor and the like hold only a part."""
    return type(parameter).__name__ in ("Parameter", "Tensor")


def _has_memory(tensor: Any) -> bool:
    """Return whether a tensor's memory is there: sharding and offloading may free it and leave the tensor its size."""
    end = (tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    return bool(tensor.untyped_storage().nbytes() >= end)
