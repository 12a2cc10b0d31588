"""Fingerprints: of the batches that a rank trains on, and of its weights; and how much each call was given.

Readers compare them between ranks and epochs.

A batch's is the CRC of the first bytes of its first tensor, if that is on the CPU; the bytes are read where they lie, by
no operation of torch. The weights' is the CRC and the sum of a few values from a few parameters, in the same places on
each rank. Of weights on a GPU the sum alone is taken, on the device, and read when it has arrived (``late``); that is
unproven on a GPU until tests/gpu has run.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any
from zlib import crc32

from gputop.tracking.journal.gpu_values import LateValues

BATCH_BYTES = 256
RECENT_BATCHES = 16
CALLED_STEPS = 32
EPOCH_BATCHES = 4
"""So many first batches make an epoch's checksum."""
RECENT_EPOCHS = 4
PROBE_EVERY = 10
RECENT_PROBES = 8
PROBED_PARAMETERS = 8
PROBED_VALUES = 32
"""Values of each probed parameter."""
GPU_PARAMETERS = 2
"""Parameters that are probed on a GPU: each costs a kernel or two."""
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
        """Whether the next batch belongs to an epoch's checksum."""
        self._seen = 0
        self._checksum = 0
        self._blind = False

    def begin(self, epoch: int) -> None:
        """An iteration over the loader begins."""
        self._first, self._seen, self._checksum = epoch, 0, 0
        self.counting = not self._blind

    def take(self, tensor: Any, step: int, wanted_from: int) -> None:
        """Take in a batch's first tensor, that will be trained on in ``step``.

        Its checksum is made at an epoch's beginning, and from the step ``wanted_from`` on: shortly before it is told.
        """
        if self._blind or (step < wanted_from and self._seen >= EPOCH_BATCHES):
            return
        try:
            if tensor.is_cpu and tensor.is_contiguous():
                address, self.elements = tensor.data_ptr(), tensor.numel()
                self.rows = tensor.shape[0]
                size = self.elements * tensor.element_size()
                if address and size:
                    checksum = crc32(ctypes.string_at(address, size if size < BATCH_BYTES else BATCH_BYTES))
                    self.recent.append((step, checksum))
                    if self._seen < EPOCH_BATCHES:
                        self._count(checksum)
        except Exception:  # noqa: BLE001 - sparse, fake and wrapped tensors have no bytes of their own
            self._blind, self.counting = True, False

    def _count(self, checksum: int) -> None:
        self._checksum = crc32(checksum.to_bytes(4, "little"), self._checksum)
        self._seen += 1
        if self._seen == EPOCH_BATCHES and self._first is not None:
            self.counting = False
            self.epochs.append((self._first, self._checksum))

    def ended(self) -> None:
        """The loader had no more batches: an epoch of fewer than four is complete too."""
        if 0 < self._seen < EPOCH_BATCHES and self._first is not None:
            self.epochs.append((self._first, self._checksum))
            self._seen, self.counting = EPOCH_BATCHES, False

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``batches``; None while there is none."""
        if not self.recent:
            return None
        return {
            "recent": [list(pair) for pair in self.recent],
            "epochs": [list(pair) for pair in self.epochs],
            "rows": self.rows,
            "elements": self.elements,
        }


class Called:
    """How large the input of the training's calls was, by step: a script may cut or pack what its loader gave it."""

    def __init__(self) -> None:
        self._sizes: deque[list[int]] = deque(maxlen=CALLED_STEPS)
        self._blind = False

    def take(self, given: Iterable[Any], step: int) -> None:
        """Take in the arguments of a call in ``step``; the calls of one step are added up."""
        if self._blind:
            return
        rows = elements = 0
        try:
            for value in given:
                parts = value if isinstance(value, list | tuple) else (value,)
                tensors = [part for part in parts if hasattr(part, "grad_fn") and len(part.shape)]
                if tensors:
                    # A list of pictures of different size has as many rows as pictures.
                    rows = tensors[0].shape[0] if value is tensors[0] else len(tensors)
                    elements = sum(tensor.numel() for tensor in tensors)
                    break
        except Exception:  # noqa: BLE001 - nested, fake and wrapped tensors have no plain shape
            self._blind = True
        if type(rows) is not int or type(elements) is not int or not elements:
            return
        last = self._sizes[-1] if self._sizes else None
        if last is not None and last[0] == step:
            self._sizes[-1] = [step, last[1] + rows, last[2] + elements]
        else:
            self._sizes.append([step, rows, elements])

    def fact(self) -> list[list[int]] | None:
        """Return [[step, rows, elements], ...]; None while nothing was seen."""
        return list(self._sizes) or None


class Probe:
    """Looks at a few values of the trained parameters every few steps."""

    def __init__(self, torch: Any, parameters: Iterable[Any]) -> None:
        self._torch = torch
        found = [item for item in parameters if _is_plain(item) and item.requires_grad and item.numel()]
        places = (
            {round(index * (len(found) - 1) / (PROBED_PARAMETERS - 1)) for index in range(PROBED_PARAMETERS)} if found else ()
        )
        self._parameters = [weakref.ref(found[place]) for place in sorted(places)]
        self._recent: deque[list[Any]] = deque(maxlen=RECENT_PROBES)
        self._late = LateValues()

    def take(self, step: int) -> None:
        """Look at the parameters now, after the step."""
        alive = [item for item in (reference() for reference in self._parameters) if item is not None]
        if not alive:
            return
        if all(item.is_cpu for item in alive):
            self._on_cpu(alive, step)
        elif all(item.is_cuda for item in alive) and not self._torch.cuda.is_current_stream_capturing():
            self._on_gpu(alive[-GPU_PARAMETERS:], step)

    def _on_cpu(self, parameters: list[Any], step: int) -> None:
        checksum, total = 0, 0.0
        for item in parameters:
            address, width = item.data_ptr(), item.element_size()
            form = _FORMATS.get(str(item.dtype))
            count = min(PROBED_VALUES, item.numel())
            if not address or form is None or not item.is_contiguous():
                continue
            raw = ctypes.string_at(address, count * width)
            checksum = crc32(raw, checksum)
            values: tuple[Any, ...] = struct.unpack(f"={count}{form}", raw)
            if form == "H":  # bfloat16 is the upper half of a float32
                values = struct.unpack(f"={count}f", struct.pack(f"={count}I", *(value << 16 for value in values)))
            total += sum(values)
        self._recent.append([step, checksum, total])

    def _on_gpu(self, parameters: list[Any], step: int) -> None:
        with self._torch.no_grad():
            parts = [item.detach().reshape(-1)[:PROBED_VALUES].float().sum() for item in parameters]
            self._late.stage("sum", parts[0] if len(parts) == 1 else parts[0] + parts[1], step, 0)

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``parameters``; None while nothing was looked at, or nothing has arrived."""
        for _, value, step, _ in self._late.landed():
            self._recent.append([step, None, value])
        return {"recent": [list(entry) for entry in self._recent]} if self._recent else None


def _is_plain(parameter: Any) -> bool:
    """Return whether a parameter holds its own values: those of DTensor and the like are in pieces."""
    return type(parameter).__name__ in ("Parameter", "Tensor")
