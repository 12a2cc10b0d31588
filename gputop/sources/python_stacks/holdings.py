"""What the code of a training holds: its models and the loader of its batches, found among its variables.

Looks only at the types of variables and at a few attributes that torch gives its own classes. Which variable is the training
loader is decided by elimination: what is named for an evaluation is not; if several are left, there is no answer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gputop.frameworks import EXCHANGE_GRADIENTS
from gputop.sources.python_stacks.memory import TornError
from gputop.sources.python_stacks.objects import Kind, Objects
from gputop.sources.python_stacks.optimizers import OPTIMIZER, held_optimizers
from gputop.whereabouts.records import HeldList, HeldLoader, HeldModels, HeldOptimizers, Holdings

_EVALUATES = re.compile(
    r"val|test|eval|dev(?!ice)|hold_?out|infer|pred|query|calib|teacher|target|reference|frozen|"
    r"(?-i:(?:(?<![A-Za-z])ema|E[Mm][Aa])(?![a-z]))",
    re.IGNORECASE,
)
"""Parts of names; the average of weights (EMA) only as a word of its own, which is part of too many others."""
_LOADER, _MODULE, _TENSOR = "torch.DataLoader", "torch.Module", "torch.Tensor"
DDP = "torch.DistributedDataParallel"
_REPLICATES = frozenset((DDP, "torch.FullyShardedDataParallel", "torch.FSDPModule"))
_SPLITS = "torch.DataParallel"
_WRAPPERS = _REPLICATES | {_SPLITS}
_ENGINES = re.compile(rf"^({'|'.join(EXCHANGE_GRADIENTS)})\.")
_EPOCH = re.compile(r"(?i)((cur|current|this|i)_?)?(epoche?|[ée]poque|[ée]poca|ep)(_?(i|idx|index|id|no|num|number))?")
"""Names of a variable that counts the epochs."""
_NORMALIZES, _SYNCHRONIZES, _DROPS = "torch._BatchNorm", "torch.SyncBatchNorm", "torch._DropoutNd"
_LOSSES = frozenset(("torch._Loss",))
_MODULES_MAX = 400
"""Modules of a model that are searched for dropout and BatchNorm."""
_VARIABLES_MAX = 2000
_KEYS_MAX = 64
"""Entries of a dictionary that are looked at."""
_LISTS_MOST = 8
_VOCABULARY = 4096
"""A larger dictionary is a table, such as one of words, and takes long to read."""
_ENTRIES_MOST = 4
"""Entries of an element of a list that are looked at: one of a replay is (state, action, reward, ...)."""
_PLAIN_SAMPLERS = frozenset(("torch.RandomSampler", "torch.SequentialSampler"))


class Variable(NamedTuple):
    """A variable of the user's own code, and where its value is."""

    name: str
    at: int


class _Found(NamedTuple):
    variable: Variable
    kind: Kind


class Found(NamedTuple):
    """What variables hold, where the first model in DDP is, and the only optimizer if that model is the only one in DDP."""

    holdings: Holdings
    ddp: int | None
    optimizer: int | None


def holdings(objects: Objects, variables: Iterable[Variable]) -> Found:
    """Return what the ``variables`` of the code around a backward pass or an optimizer step hold. Its memory must be open."""
    loaders: dict[int, _Found] = {}
    models: dict[int, _Found] = {}
    optimizers: set[int] = set()
    modules: dict[int, _Found] = {}
    epochs: list[int] = []
    lists: dict[int, HeldList] = {}
    engine = None
    for found in _with_attributes(objects, variables):
        variable, kind = found
        if engine is None and any(map(_ENGINES.search, kind.bases)):
            engine = kind.name
        if OPTIMIZER in kind.bases:
            optimizers.add(variable.at)
        if _MODULE in kind.bases:
            modules.setdefault(variable.at, found)
        if _LOADER in kind.bases:
            loaders.setdefault(variable.at, found)
        elif _MODULE in kind.bases and not kind.bases & _LOSSES:
            models.setdefault(variable.at, found)
        elif kind.name in ("list", "dict"):
            lists |= _lists(objects, found)
        elif kind.name == "int" and _EPOCH.fullmatch(variable.name):
            value = objects.value(variable.at)
            epochs += [value] if isinstance(value, int) else []
    longest = sorted(lists.values(), key=lambda item: -item.length)[:_LISTS_MOST]
    held = Holdings(
        _models(objects, models.values(), engine),
        _loader(objects, loaders.values()),
        max(epochs, default=None),
        lists=tuple(sorted(longest, key=lambda item: item.name)),
        optimizers=_optimizers(objects, sorted(optimizers), modules) if engine is None else None,
    )
    wrapped = [place for place, found in models.items() if DDP in found.kind.bases]
    return Found(held, next(iter(wrapped), None), optimizers.pop() if len(optimizers) == len(wrapped) == 1 else None)


class Updated(NamedTuple):
    """How many tensors an optimizer keeps state of, next to the only model in DDP."""

    parts: tuple[int, ...]
    """Where DDP, its reducer and the optimizer are, and how many groups of parameters that has: the same as long as nothing is
    wrapped again, and no parameter is added."""
    tensors: int


def updated(objects: Objects, ddp: int, optimizer: int) -> Updated | None:
    """Return what an optimizer has updated; None if that is nothing, or if DDP looks for parameters that take no part."""
    if DDP not in objects.kind(ddp).bases or OPTIMIZER not in objects.kind(optimizer).bases:
        return None
    around, own = objects.attributes(ddp), objects.attributes(optimizer)
    flags = [around.get(name) for name in ("find_unused_parameters", "static_graph")]
    if any(flag is None or objects.value(flag) != 0 for flag in flags):
        return None
    reducer, groups, state = around.get("reducer"), own.get("param_groups"), own.get("state")
    if reducer is None or groups is None or state is None or objects.kind(groups).name != "list":
        return None
    if objects.kind(state).name not in ("dict", "defaultdict") or not objects.length(state):
        return None
    return Updated((ddp, reducer, optimizer, objects.length(groups)), objects.length(state))


def _optimizers(objects: Objects, found: Sequence[int], modules: Mapping[int, _Found]) -> HeldOptimizers | None:
    """Return what is known of the optimizers. Read last: large models may take all reads that are left."""
    if any(item.kind.bases & _REPLICATES - {DDP} for item in modules.values()):
        return None  # FSDP trains other tensors than the model shows
    kinds = {place: item.kind.name for place, item in modules.items()}
    trained = [place for place, item in modules.items() if not _EVALUATES.search(item.variable.name)]
    try:
        return held_optimizers(objects, found, kinds, trained)
    except (TornError, UnicodeDecodeError):
        return None


def _with_attributes(objects: Objects, variables: Iterable[Variable]) -> Iterator[_Found]:
    """Yield the variables with their types, and the attributes of the objects whose methods run."""
    seen: set[int] = set()
    for number, variable in enumerate(variables):
        if number >= _VARIABLES_MAX:
            return
        try:
            kind = objects.kind(variable.at)
            yield _Found(variable, kind)
            if variable.name == "self" and variable.at not in seen and not kind.bases & {_MODULE, _LOADER}:
                seen.add(variable.at)
                for name, at in objects.attributes(variable.at).items():
                    yield _Found(Variable(name, at), objects.kind(at))
        except (TornError, UnicodeDecodeError):
            continue  # a variable that changes meanwhile


def _lists(objects: Objects, found: _Found) -> dict[int, HeldList]:
    """Return the lists of tensors that a variable is, or that a dictionary holds, by where they are."""
    (name, at), kind = found
    if kind.name == "dict" and objects.length(at) > _VOCABULARY:
        return {}
    named = [(name, at)] if kind.name == "list" else [(f"{name}['{key}']", place) for key, place in objects.items(at)]
    lists = [(text, place) for text, place in named[:_KEYS_MAX] if kind.name == "list" or objects.kind(place).name == "list"]
    return {
        place: HeldList(text, objects.length(place))
        for text, place in lists
        if (newest := objects.newest(place)) is not None and _holds_tensors(objects, newest)
    }


def _holds_tensors(objects: Objects, at: int) -> bool:
    """Return whether an element of a list is a tensor, a tuple or dictionary with one among its first entries, or a list that
    ends with one.
    """
    kind = objects.kind(at)
    if kind.name == "list":
        newest = objects.newest(at)
        inner = [newest] if newest is not None else []
    elif "tuple" in kind.bases and objects.length(at) <= _KEYS_MAX:
        inner = list(objects.elements(at)[:_ENTRIES_MOST])
    elif kind.name == "dict" and objects.length(at) <= _KEYS_MAX:
        inner = [place for _, place in itertools.islice(objects.items(at), _ENTRIES_MOST)]
    else:
        inner = [at]
    return any(_TENSOR in objects.kind(place).bases for place in inner)


def _loader(objects: Objects, found: Iterable[_Found]) -> HeldLoader | None:
    """Return the only loader that is not named for an evaluation; None if there are several, or none."""
    training = [item for item in found if not _EVALUATES.search(item.variable.name)]
    if len(training) != 1:
        return None
    (name, at), kind = training[0]
    attributes = objects.attributes(at)
    dataset, sampler = attributes.get("dataset"), attributes.get("sampler")
    if dataset is None or sampler is None:
        return None
    sampled, drawn, data = objects.kind(sampler), objects.attributes(sampler), objects.kind(dataset)
    batches = attributes.get("batch_sampler")
    plain = kind.name == "DataLoader" and batches is not None and objects.kind(batches).name == "BatchSampler"
    plain = plain and bool(sampled.bases & _PLAIN_SAMPLERS) and "torch.IterableDataset" not in data.bases
    distributed = "torch.DistributedSampler" in sampled.bases
    return HeldLoader(
        name,
        dataset=data.name,
        sampler=sampled.name,
        is_plain=plain,
        batch_size=_whole(objects, attributes, "batch_size"),
        shuffles=objects.flag(sampler, "shuffle") if distributed else sampled.name == "RandomSampler" if plain else None,
        replicas=_whole(objects, drawn, "num_replicas") if distributed else None,
        sampler_epoch=_whole(objects, drawn, "epoch") if distributed else None,
    )


def _models(objects: Objects, found: Iterable[_Found], engine: str | None) -> HeldModels | None:
    """Return what is known of the models that are not named for an evaluation; None if there are none."""
    own = [item for item in found if not _EVALUATES.search(item.variable.name)]
    if not own:
        return None
    wrappers = [item for item in own if item.kind.bases & _WRAPPERS]
    inner = {place for item in own for _, place in _modules(objects, item.variable.at, 1)}
    outermost = [item for item in own if item.variable.at not in inner]
    modes = [objects.flag(item.variable.at, "training") for item in outermost]
    layers = [layer for item in outermost for layer in _layers(objects, item.variable.at)]
    return HeldModels(
        names=tuple(sorted({item.kind.name for item in outermost})),
        wrapper=wrappers[0].kind.name if wrappers else engine,
        devices=_devices(objects, wrappers),
        replicates=any(item.kind.bases & _REPLICATES for item in own),
        evaluates=bool(modes) and all(mode is False for mode in modes),
        differs=tuple(
            sorted({"BatchNorm" if normalizes else "dropout" for normalizes, _, trains in layers if trains is False})
        ),
        batch_norms=sum(normalizes and not synced and trains is True for normalizes, synced, trains in layers),
    )


def _devices(objects: Objects, wrappers: Sequence[_Found]) -> int | None:
    """Return the number of devices of the first nn.DataParallel; None without one, or without devices of its own."""
    for (_, at), kind in wrappers:
        place = objects.attributes(at).get("device_ids") if _SPLITS in kind.bases else None
        if place is not None and objects.kind(place).name == "list":
            return objects.length(place) or None
    return None


def _layers(objects: Objects, at: int) -> Iterator[tuple[bool, bool, bool | None]]:
    """Yield the layers of a model that behave differently in evaluation mode.

    Of each: whether it is BatchNorm, else it is dropout; whether it is synchronized; and whether it is in training mode.
    """
    for kind, place in _modules(objects, at, _MODULES_MAX):
        if kind.bases & {_NORMALIZES, _DROPS}:
            trains = objects.flag(place, "training")
            yield _NORMALIZES in kind.bases, _SYNCHRONIZES in kind.bases, trains


def _modules(objects: Objects, at: int, most: int) -> Iterator[tuple[Kind, int]]:
    """Yield the modules inside a module, with their types, the nearest first, of itself and at most ``most`` - 1 others."""
    waiting, seen = [at], 0
    while waiting and seen < most:
        seen += 1
        place = objects.attributes(waiting.pop(0)).get("_modules")
        for _, inner in objects.items(place) if place is not None else ():
            kind = objects.kind(inner)
            if _MODULE in kind.bases:
                yield kind, inner
                waiting.append(inner)


def _whole(objects: Objects, attributes: Mapping[str, int], name: str) -> int | None:
    value = objects.value(attributes[name]) if name in attributes else None
    return value if isinstance(value, int) else None
