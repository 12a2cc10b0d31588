"""DistributedDataParallel and torch.distributed: DDP's logging data, the backwards it reduced, and calls of collectives.

``DistributedDataParallel.__init__`` is wrapped to remember each parameter with its dtype and device at that time, because DDP
reduces those tensors and no others. Collectives are counted where Python passes them to a ProcessGroup: below the functions
that torch.compile recognizes by identity, and without those of DDP's reducer, which is C++ and does not pass there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gputop.facts import parallel
from gputop.tracking import parts
from gputop.tracking.auto.readings.parallel import Place
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.stand_in import stands_for
from gputop.tracking.unseen import unseen

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
}
"""Methods of a ProcessGroup, and their names in ``torch.distributed``."""
_NANOSECONDS = 1e-9
_SHARDED = frozenset({"FSDPModule", "FullyShardedDataParallel", "DeepSpeedEngine"})

_PASSES_WEIGHTS = frozenset(name for name in COLLECTIVES.values() if name.startswith(("all_reduce", "all_gather", "reduce")))
"""With these a script may average gradients or weights itself."""

collectives: dict[str, int] = {}
"""Calls from Python in this process, by name."""
_wrapped_as: weakref.WeakKeyDictionary[Any, dict[int, tuple[Any, Any, Any]]] = weakref.WeakKeyDictionary()
"""For each DDP the parameters that it reduces, by id, with their dtype and device when it was created."""


def listen(torch: Any, no_compile: Callable[..., None]) -> None:
    """Install the wrappers if this torch has torch.distributed; once per process."""
    ddp: Any = getattr(torch.nn.parallel, "DistributedDataParallel", None)
    group: Any = getattr(getattr(torch._C, "_distributed_c10d", None), "ProcessGroup", None)
    if ddp is None or group is None:
        return
    original = ddp.__init__

    @stands_for(original)
    def made(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            found = [item for item in parts.parameters(self.module) if item.requires_grad]
            _wrapped_as[self] = {id(item): (weakref.ref(item), item.dtype, item.device) for item in found}
        except Exception as error:  # noqa: BLE001 - what cannot be remembered is not reported
            let_through(error)
            return

    no_compile(torch, made, inside=False)
    ddp.__init__ = made
    for function in (PassedOn.note, _elements, _sized):
        no_compile(torch, function)
    for method, name in COLLECTIVES.items():
        if method in group.__dict__:
            setattr(group, method, _counted(torch, getattr(group, method), method, name, no_compile))


def _counted(torch: Any, original: Any, method: str, name: str, no_compile: Callable[..., None]) -> Any:
    weighs = name in _PASSES_WEIGHTS

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        collectives[name] = collectives.get(name, 0) + 1
        if weighs:
            try:
                with unseen(torch):
                    passed_on.note(args, name == "all_reduce")
            except Exception as error:  # noqa: BLE001 - what cannot be measured is not reported
                let_through(error)
        return original(self, *args, **kwargs)

    # In a Python subclass, torch takes this for an override of the C++ method, and calls it from there. Only a frame with the
    # name of the method, and with the group as its first argument, shows it that the call comes from here.
    call.__code__ = call.__code__.replace(co_name=method)
    found = stands_for(original)(call)
    no_compile(torch, found, inside=False)
    return found


class PassedOn:
    """What the script passed on with collectives: the size of the largest tensor distinguishes weights from metrics, and the
    sum of what all_reduce got shows how much each call of it passed on."""

    def __init__(self) -> None:
        self.largest = 0
        """Elements of the largest tensor."""
        self.reduced = 0
        """Elements that all_reduce got, in sum."""

    def note(self, args: tuple[Any, ...], reduces: bool) -> None:
        """Note what a call passes on: its last tensors. If the call also has tensors for the result, the last ones are this
        rank's own. ``reduces``: the call is one of all_reduce."""
        # Loops, because torch.compile would compile what a comprehension of an older Python calls.
        for item in reversed(args):
            if isinstance(item, list) or _sized(item):
                elements = _elements(item)
                self.largest = max(self.largest, elements)
                if reduces:
                    self.reduced += elements
                return

    def counts(self) -> dict[str, int]:
        """Return both as parts of the fact ``process_group``."""
        return {"largest": self.largest, "reduced": self.reduced}


passed_on = PassedOn()


def _sized(item: Any) -> bool:
    return hasattr(item, "numel")


def _elements(item: Any) -> int:
    """Return the size of a tensor, or of the largest one in a list, or in a list of lists."""
    if not isinstance(item, list):
        return int(item.numel()) if _sized(item) else 0
    most = 0
    for each in item:
        most = max(most, _elements(each))
    return most


class Gradients:
    """Counts backwards per optimizer step, and which of them DDP reduced over the ranks."""

    def __init__(self) -> None:
        self.steps = self.backwards = self.synced = self.unsynced_steps = self.accumulation = 0
        self._armed = self._reduced = False
        self._before = 0

    def forward(self, syncs: bool) -> None:
        """Note a training call of a DDP; ``syncs``: outside of ``no_sync``."""
        self._armed = self._armed or syncs

    def backward(self) -> None:
        """Note that a backward begins."""
        self.backwards += 1
        self._reduced = self._armed
        if self._armed:
            self.synced += 1
            self._armed = False

    def take_back(self) -> None:
        """Note that the backward failed."""
        self.backwards -= 1

    def stepped(self, in_ddp: bool) -> None:
        """Note that an optimizer has stepped; ``in_ddp``: on parameters of a DDP."""
        since = self.backwards - self._before
        self._before = self.backwards
        if since:
            self.steps += 1
            self.accumulation = since
            self.unsynced_steps += in_ddp and not self._reduced

    def fact(self, with_ddp: bool) -> dict[str, Any] | None:
        """Return the fact ``gradients``; None before the first step."""
        if not self.steps:
            return None
        return parallel.Gradients.filled(
            steps=self.steps,
            backwards=self.backwards,
            synced_backwards=self.synced if with_ddp else None,
            unsynced_steps=self.unsynced_steps if with_ddp else None,
            accumulation=self.accumulation,
        )


def is_ddp(module: Any) -> bool:
    """Return whether a module is a DistributedDataParallel."""
    return any(base.__name__ == "DistributedDataParallel" for base in type(module).__mro__)


def is_sharded(module: Any) -> bool:
    """Return whether a module or one of its submodules is sharded over the ranks: by fully_shard, FSDP or DeepSpeed."""
    kinds = {type(part) for part in parts.modules(module)}
    return any(base.__name__ in _SHARDED for kind in kinds for base in kind.__mro__)


def ddp_fact(module: Any) -> dict[str, Any]:
    """Return the fact ``ddp``; values that this torch does not provide are None."""
    try:
        said: dict[str, Any] = module._get_ddp_logging_data()
    except Exception:  # noqa: BLE001 - a prototype interface: it may disappear or raise
        said = {}
    devices = [int(item) for item in str(said.get("device_ids", "")).replace(",", " ").split() if item.isdigit()]
    kept = _wrapped_as.get(module, {})
    first = next(iter(kept.values()), (None, None, None))
    unused, synced = said.get("unused_parameter_size"), said.get("has_sync_bn")
    return parallel.Ddp.filled(
        backend=said.get("backend_name"),
        world_size=said.get("world_size"),
        device_ids=devices if "device_ids" in said else None,
        find_unused_parameters=_flag(getattr(module, "find_unused_parameters", None)),
        unused_parameter_bytes=unused,
        has_sync_bn=_flag(synced),
        static_graph=_flag(getattr(module, "static_graph", None)),
        joins=_flag(getattr(getattr(module, "_join_config", None), "enable", None)),
        iteration=said.get("iteration"),
        forward_s=_seconds(said.get("avg_forward_compute_time")),
        backward_s=_seconds(said.get("avg_backward_compute_time")),
        communication_s=_seconds(said.get("avg_backward_comm_time")),
        overlap_s=_seconds(said.get("avg_backward_compute_comm_overlap_time")),
        replaced_parameters=_replaced(module, kept) if module in _wrapped_as else None,
        parameter_device=None if first[2] is None else str(first[2]),
        parameter_dtype=None if first[1] is None else str(first[1]).removeprefix("torch."),
    )


def _replaced(module: Any, kept: dict[int, tuple[Any, Any, Any]]) -> int:
    """Return how many trained parameters were replaced, or changed dtype or device, since DDP received them."""
    count = 0
    for item in parts.parameters(module.module):
        if item.requires_grad:
            known = kept.get(id(item))
            count += known is None or known[0]() is not item or known[1:] != (item.dtype, item.device)
    return count


def group_fact(torch: Any, place: Place | None) -> dict[str, Any] | None:
    """Return the fact ``process_group``; None if torch.distributed is not initialized. ``place`` is None if not looked for."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    known = getattr(getattr(distributed.distributed_c10d, "_world", None), "pg_map", None)
    shared = {} if place is None else {"data_ranks": place.data_ranks, "data_rank": place.data_rank}
    return parallel.ProcessGroup.filled(
        backend=str(distributed.get_backend()),
        world_size=distributed.get_world_size(),
        rank=distributed.get_rank(),
        groups=None if known is None else len(known),
        mesh=[] if place is None else list(place.names),
        mesh_sizes=[] if place is None else list(place.sizes),
        **shared,
        collectives=dict(collectives),
        **passed_on.counts(),
    )


def _seconds(nanoseconds: Any) -> float | None:
    return nanoseconds * _NANOSECONDS if isinstance(nanoseconds, int) else None


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
