"""Calls of nn.DataParallel: bypassed (B03), with arguments that it cannot split (B04, B06), or with one device (B12)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import model_class, wrapped_by
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import siblings, through_the_wrapper, utilization
from gputop.snapshot import Device

BYPASSED_STEPS_MIN = 5
"""Consecutive optimizer steps without a call of the wrapper (docs/rules.md#b03)."""
CALLS_MIN = 20
"""As for batches (docs/rules.md#b01)."""
CHANNELS = (1, 3, 4)
"""Numbers of channels of an image."""
B06_HOLD_S = 5.0
"""How long B06 must hold (our choice)."""
_SPLIT = ("B01", "B02", "B05")


def goes_around(evidence: Evidence, group: RankGroup) -> Judgement:
    """B03: the script calls the module inside nn.DataParallel, so nothing is split and one GPU does all the work."""
    for member in group.members:
        rank = member.journal
        calls = facts_of(rank).wrapper_calls
        if calls is None or wrapped_by(rank) != "data_parallel":
            continue
        number = _devices_number(group, member)
        if (calls.bypassed_steps or 0) < BYPASSED_STEPS_MIN or (number is not None and number < 2):
            continue
        name = calls.module or model_class(rank) or "the module"
        devices = _seen_devices(group, number)
        facts = [
            Fact(
                f"{calls.bypassed_steps} consecutive steps called {name} inside the wrapper{tracked.at(calls.where)}",
                calls.bypassed_steps,
                "journal",
            ),
            Fact(f"{calls.wrapped} calls of the wrapper, {calls.bypassed} calls that bypass it", calls.wrapped, "journal"),
        ]
        if number is not None:
            facts.append(Fact(f"the wrapper has {words.count(number, 'device')}", number, "journal"))
        facts += utilization(evidence, devices)
        finding = tracked.about(
            group,
            "B03",
            "error",
            "certain",
            "DataParallel is bypassed: one GPU does all the work",
            facts,
            "Only a call of the wrapper splits the batch. A call of the module inside, model.module(x) or "
            "model.module.method(x), runs only on the first GPU.",
            _bypass_fix(group, name, calls.where, number),
            "The calls that bypass the wrapper compute an auxiliary loss, and every step also calls the wrapper.",
            devices,
        )
        return Suspicion(finding)
    return None


B03 = Rule(
    id="B03",
    order=700,
    family="data parallel",
    title="DataParallel is bypassed",
    severities=("error",),
    confidences=("certain",),
    needs=("journal: wrapper_calls, model",),
    threshold=f"{BYPASSED_STEPS_MIN} consecutive optimizer steps call only the module inside nn.DataParallel",
    hides=(*_SPLIT, "B04", "B06", "B07", "B08", "B13", "A01", "A02", "E02"),
    mechanism=(
        "Only a call of the wrapper splits the batch. model.module(x) and model.module.method(x) run only on the first GPU."
    ),
    signature="Optimizer steps run without a call of the wrapper, and one GPU does all the work.",
    look_alike="A01, which looks the same from outside; B01 (the wrapper is called with a batch that is too small).",
    fix="Call the wrapper, model(x), and call other methods through forward; better, use DDP.",
    judge=goes_around,
)


def _bypass_fix(group: RankGroup, name: str, where: str | None, number: int | None) -> str:
    better = fixes.launch_line(group, number or group.visible_count or 2)
    return f"{through_the_wrapper(name, where)}\n# better: DistributedDataParallel, and\n# {better}"


def _devices_number(group: RankGroup, member: Member) -> int | None:
    fact = stated.data_parallel(member.journal)
    if fact is not None:
        return fact.devices
    return _seen_number(group, member)


def _seen_number(group: RankGroup, member: Member) -> int | None:
    """Return how many devices the process sees; torch does not count virtual GPUs, but the rank lists those that it uses."""
    count = stated.device_count(member.journal) if not group.virtual else None
    return count or group.visible_count or len(stated.stated_devices(member.journal)) or None


def _seen_devices(group: RankGroup, number: int | None) -> tuple[Device, ...]:
    """Return the wrapper's devices if known: the visible ones, else the used ones."""
    if group.visible is not None and (number is None or len(group.visible) == number):
        return group.visible
    return tracked.used_devices(group)


def nothing_to_split(evidence: Evidence, group: RankGroup) -> Judgement:
    """B04: the arguments hold no tensor, so every GPU gets all of them and processes the whole batch."""
    for member in group.members:
        fact = stated.data_parallel(member.journal)
        if fact is None or fact.devices < 2 or fact.calls < CALLS_MIN or fact.tensor_leaves != 0:
            continue
        feed = facts_of(member.journal).loader
        if feed is not None and feed.type == "DataListLoader":
            # PyTorch Geometric's own DataParallel scatters lists of graphs.
            continue
        devices = _seen_devices(group, fact.devices)
        facts = [
            Fact("no tensor in the arguments of the wrapper's calls", 0, "journal"),
            Fact(f"{fact.calls} calls on {words.count(fact.devices, 'device')}", fact.calls, "journal"),
            *utilization(evidence, devices),
        ]
        finding = tracked.about(
            group,
            "B04",
            "error",
            "certain",
            f"DataParallel copies the whole batch to each of {fact.devices} GPUs",
            facts,
            "nn.DataParallel splits tensors, including tensors in lists, tuples and dicts. It copies everything else whole "
            "(your own objects, strings, numbers, a graph), so each GPU does the same work.",
            "loss = model(batch.x, batch.y)  # tensors, or a dict of tensors, with the batch in the first dimension\n"
            "# graphs: torch_geometric.nn.DataParallel with torch_geometric.loader.DataListLoader\n"
            f"# any input: DistributedDataParallel, {fixes.launch_line(group, fact.devices)}",
            "The wrapper has its own scatter method that splits these objects.",
            devices,
        )
        return Suspicion(finding)
    return None


B04 = Rule(
    id="B04",
    order=701,
    family="data parallel",
    title="DataParallel has nothing to split",
    severities=("error",),
    confidences=("certain",),
    needs=("journal: data_parallel",),
    threshold=f"no tensor in the arguments, in at least {CALLS_MIN} calls, on two or more devices",
    hides=(*_SPLIT, "B06", "B07", "B08", "E02"),
    mechanism=(
        "nn.DataParallel splits tensors, including tensors in lists, tuples and dicts. It copies everything else whole, so "
        "each GPU processes the whole batch."
    ),
    signature="All GPUs are equally busy, but the throughput is that of one.",
    look_alike="A wrapper with its own scatter method, such as the one in PyTorch Geometric.",
    fix="Pass tensors or a dict of tensors, or use DDP.",
    judge=nothing_to_split,
)


def wrong_dimension(evidence: Evidence, group: RankGroup) -> Judgement:
    """B06: the split dimension is not the batch dimension: time comes first, or images are split by channel."""
    for member in group.members:
        fact, feed = stated.data_parallel(member.journal), facts_of(member.journal).loader
        if fact is None or fact.devices < 2 or fact.calls < CALLS_MIN or feed is None or not fact.leaf_sizes:
            continue
        size, sizes = feed.batch_size, fact.leaf_sizes
        images = size is not None and len(sizes) >= size > 1 and set(sizes) <= set(CHANNELS) and len(set(sizes)) == 1
        if size is None or size < 2 or not (images or all(_no_batch(item, size, feed.dataset_length) for item in sizes)):
            continue
        parts = f"{len(sizes)} tensors of {sizes[0]}" if images else " / ".join(str(item) for item in sizes[:4])
        facts = [
            Fact(f"the loader's batch size is {size}", size, "journal"),
            Fact(f"dimension {fact.dim}, which is split, has size {parts}", list(sizes[:16]), "journal"),
            Fact(f"{fact.calls} calls on {words.count(fact.devices, 'device')}", fact.calls, "journal"),
        ]
        what = "images along their channels" if images else f"dimension {fact.dim}, which is not the batch dimension"
        finding = tracked.about(
            group,
            "B06",
            "error",
            "likely",
            f"DataParallel splits {what}",
            facts,
            "nn.DataParallel splits every tensor along one dimension, by default the first: it splits sequences with time "
            "first along time, and a list of images through each image.",
            _dimension_fix(group, fact.devices, images, fact.dim),
            "The script regroups its batches on purpose, so that this dimension holds independent samples.",
            _seen_devices(group, fact.devices),
        )
        return Suspicion(finding, B06_HOLD_S)
    return None


B06 = Rule(
    id="B06",
    order=702,
    family="data parallel",
    title="DataParallel splits the wrong dimension",
    severities=("error",),
    confidences=("likely",),
    needs=("journal: data_parallel, loader",),
    window_s=B06_HOLD_S,
    threshold=(
        "the size of the split dimension is no part, multiple or remainder of the loader's batch size, or "
        f"the argument is a list of images with 1, 3 or 4 channels; {CALLS_MIN} calls, {B06_HOLD_S:.0f} s"
    ),
    hides=(*_SPLIT, "B07", "B08"),
    mechanism=(
        "nn.DataParallel splits every tensor along its first dimension: it splits sequences with time first along time, "
        "and a list of images through each image."
    ),
    signature="The size of the split dimension is not the loader's batch size.",
    look_alike="A batch that the script regroups on purpose; the smaller last batch of an epoch.",
    fix="Pass dim=1 or use batch_first=True; for detectors that take lists of images, use DDP.",
    judge=wrong_dimension,
)


def _no_batch(size: int, batch: int, dataset_length: int | None) -> bool:
    """Return whether a size is not the batch size, a part or multiple of it, or the remainder of an epoch."""
    if size == 0 or size % batch == 0 or batch % size == 0:
        return False
    return dataset_length is None or size != dataset_length % batch


def _dimension_fix(group: RankGroup, number: int, images: bool, dim: int) -> str:
    ddp = f"DistributedDataParallel: {fixes.launch_line(group, number)}"
    if images:
        return f"# detectors that take lists of images need one process per GPU: {ddp}"
    other = 1 if dim == 0 else 0
    return (
        f"model = nn.DataParallel(net, dim={other})  # the batch is dimension {other}; or batch_first=True in the RNN\n# {ddp}"
    )


def one_device(evidence: Evidence, group: RankGroup) -> Judgement:
    """B12: the wrapper has one device while the process sees more."""
    for member in group.members:
        fact = stated.data_parallel(member.journal)
        count = _seen_number(group, member)
        if (
            fact is None
            or fact.devices != 1
            or count is None
            or count < 2
            or siblings(evidence, group)
            or len(group.members) > 1
        ):
            continue
        others = [device for device in (group.visible or group.pool) if device.uuid not in group.used]
        if others and all(evidence.owners(device.uuid) for device in others):
            continue
        facts = [
            Fact(f"device_ids has one entry: {list(fact.device_ids)}", list(fact.device_ids), "journal"),
            Fact(f"the process sees {words.count(count, 'GPU')}", count, group.visible_source or "journal"),
            *utilization(evidence, [*tracked.used_devices(group), *others]),
        ]
        finding = tracked.about(
            group,
            "B12",
            "warning",
            "certain",
            f"DataParallel has 1 of {count} GPUs: it passes every call on unsplit",
            facts,
            "With a single entry in device_ids, nn.DataParallel only calls the module: nothing is split.",
            f"model = nn.DataParallel(net)  # all {count} GPUs, without device_ids\n"
            f"# better, one process per GPU: DistributedDataParallel, {fixes.launch_line(group, count)}",
            f"You want one GPU. Then say so: {fixes.mask_prefix(group, tracked.used_devices(group))}{fixes.own_command(group)}",
            [*tracked.used_devices(group), *others],
        )
        return Suspicion(finding)
    return None


B12 = Rule(
    id="B12",
    order=703,
    family="data parallel",
    title="DataParallel has one device",
    severities=("warning",),
    confidences=("certain",),
    needs=("journal: data_parallel, torch", "CUDA_VISIBLE_DEVICES"),
    threshold="device_ids has one entry, the process sees more devices, and other jobs do not use all of those",
    hides=(*_SPLIT, "A01", "A02", "B08", "E02"),
    mechanism="With a single entry in device_ids, nn.DataParallel only calls the module.",
    signature="The wrapper has one device while the process sees several, and the others are free.",
    look_alike="A mask that leaves the process one GPU (A03); GPUs that others use.",
    fix="Leave device_ids out; better, use DDP with one process for each GPU.",
    judge=one_device,
)
