"""Values that are still on a GPU when they are logged: copied asynchronously, and recorded once they have arrived.

``float(t)``, ``t.item()`` and ``t.cpu()`` wait until the GPU has finished all earlier work. Here a copy into pinned memory
is queued behind that work instead, on the current stream. The slot holds a bit pattern that no kernel writes (a NaN of our
own), so a plain memory read shows whether the copy has landed: no event, no query, nothing that could break the capture of
a CUDA graph. The record then gets the step and the time of its ``log`` call.

A slot is reused only after its copy has landed. When all slots are pending, new values are dropped with a notice; nothing
ever waits for a slot. While a CUDA graph is being captured nothing is copied at all.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason, warn

SLOTS = 256
"""How many values of one width may be in flight at once."""
_EMPTY = {4: 0x7FC0DEAD, 8: 0x7FF8DEADDEADDEAD}
_FLOATS = {4: struct.Struct("=f"), 8: struct.Struct("=d")}
_WORDS = {4: struct.Struct("=I"), 8: struct.Struct("=Q")}


def pinned(torch: Any, dtype: Any) -> Any:
    """Return a tensor of ``SLOTS`` values in pinned memory, whatever modes apply where the first value is logged.

    A tensor that is made under ``inference_mode``, in an evaluation, could not be written to in the training that follows.
    Under ``set_default_device("cuda")`` tensors are made on the GPU, where no memory is pinned.
    """
    with torch.inference_mode(False):
        return torch.empty(SLOTS, dtype=dtype, device="cpu", pin_memory=True)


class Pool:
    """Slots of one width in one block of pinned memory; ``buffer`` is a tensor of ``SLOTS`` floats of that width."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        with sys.modules["torch"].inference_mode(False):
            self.slots = [buffer[slot] for slot in range(SLOTS)]
        """Each slot as a tensor without dimensions: making one takes as long as the copy's own call."""
        self.width = int(buffer.element_size())
        raw = (ctypes.c_char * (self.width * SLOTS)).from_address(buffer.data_ptr())
        plain = memoryview(raw).cast("B")
        self._words: memoryview[int] = plain.cast("I") if self.width == 4 else plain.cast("Q")
        self._free = deque(range(SLOTS))

    def take(self) -> int | None:
        """Return an empty slot; None when all are in flight."""
        try:
            slot = self._free.popleft()
        except IndexError:
            return None
        self._words[slot] = _EMPTY[self.width]
        return slot

    def landed(self, slot: int) -> float | None:
        """Return the value that has arrived in a slot, and free the slot; None if none has arrived yet."""
        word = self._words[slot]
        if word == _EMPTY[self.width]:
            return None
        self._free.append(slot)
        value: float = _FLOATS[self.width].unpack(_WORDS[self.width].pack(word))[0]
        return value


class LateValues:
    """The values of one journal that are in flight."""

    def __init__(self) -> None:
        self._pools: dict[int, Pool] = {}
        self._under_way: deque[tuple[Pool, int, str, int, int]] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def stage(self, name: str, tensor: Any, step: int, time_ns: int) -> None:
        """Queue the copy of a one-element tensor on a CUDA device. Never waits and never raises."""
        try:
            self._stage(name, tensor, step, time_ns)
        except Exception as error:  # noqa: BLE001 - no pinned memory, a broken context: other metrics must not suffer
            let_through(error)
            warn(f"metric {name!r} on a GPU cannot be logged ({reason(error)}). Log {name}.item().", f"{name!r} on a GPU")

    def _stage(self, name: str, tensor: Any, step: int, time_ns: int) -> None:
        torch: Any = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            warn(f"metric {name!r} is not logged while a CUDA graph is being captured: log it after the replay.")
            return
        value = tensor.detach()
        if value.dim():
            value = value.reshape(())
        # A copy that changes the dtype would go through pageable memory and wait, so convert on the device first.
        if value.dtype not in (torch.float32, torch.float64):
            value = value.to(torch.float32 if value.is_floating_point() else torch.float64)
        width = int(value.element_size())
        pool = self._pools.get(width)
        if pool is None:
            pool = self._pools[width] = Pool(pinned(torch, value.dtype))
        self._send(pool, value, name, step, time_ns)

    def _send(self, pool: Pool, value: Any, name: str, step: int, time_ns: int) -> None:
        slot = pool.take()
        if slot is None:
            warn(f"the GPU is more than {SLOTS} logged values behind: some are not logged. Log less often.")
            return
        pool.slots[slot].copy_(value, non_blocking=True)
        self._under_way.append((pool, slot, name, step, time_ns))

    def landed(self) -> Iterator[tuple[str, float, int, int]]:
        """Yield (name, value, step, time) of each value that has arrived, in order; only reads plain memory."""
        while self._under_way:
            pool, slot, name, step, time_ns = self._under_way[0]
            value = pool.landed(slot)
            if value is None:
                return
            self._under_way.popleft()
            yield name, value, step, time_ns
