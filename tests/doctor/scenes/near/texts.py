"""What lies near to error texts that name a cause: the same words of a job that went on, and other errors in nearly the same
words, which have a verdict of their own. The logs are read as the launcher reads them.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Snapshot
from tests.doctor.logs.samples import MATCHING
from tests.doctor.scenes import dp as of_dp
from tests.doctor.scenes import hardware
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import PROGRESS, Pair, look_alikes, raised, wrote

LINES = {name: line for name, line, _ in reversed(MATCHING)}
LATER = PROGRESS + raised("ValueError: the end of the data", 99)
"""The training goes on for a while, and ends of something else."""


def caught(text: str) -> str:
    """A script catches an error, shows its traceback, takes another way, and fails of something else in the end."""
    return raised(text) + "caught, going on without\n" + LATER


def quoted(text: str) -> str:
    """The words in a line of the script's own, which trains on, and fails of something else in the end."""
    return f"seen in an earlier run: {text}\nreading the data\nbuilding the model\nready\n" + LATER


def failed(text: str, **changes: Any) -> Scene:
    return wrote(raised(text), **changes)


def with_its_own_rank(second: int) -> Snapshot:
    """The process that the GPU is full of is another rank of the run."""
    shot = failed(FULL_OF_OTHERS, world=4)(second)
    (run,) = shot.runs
    return replace(shot, runs=(replace(run, ranks=(*run.ranks[:3], replace(run.ranks[3], pid=812))),))


def facts(**said: Any) -> dict[str, Any]:
    return {"facts": said}


UNSEEN = (
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
    "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
)
TWO_DEVICES = LINES["two_devices"]
NOT_ON_GPU = "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same"
HALF = "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same"
NOT_ON_FIRST = LINES["dp_not_on_dev0"]
ON_CPU = LINES["ddp_devids_cpu"]
SPREAD = ON_CPU.replace("{device(type='cpu')}", "{device(type='cuda', index=0), device(type='cuda', index=1)}")
NO_CUDA = LINES["cuda_deser_unavailable"]
OTHER_ORDINAL = LINES["cuda_deser_ordinal"]
ORDINAL = LINES["invalid_ordinal"]
FULL = hardware.OOM
FULL_OF_OTHERS = LINES["oom_other_proc"]
FORKED = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use 'spawn'"
HOST_FULL = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"
)


def state_dict(missing: str, unexpected: str) -> str:
    """What load_state_dict says of two sets of names."""
    lines = ["RuntimeError: Error(s) in loading state_dict for Net:"]
    lines += [f"\tMissing key(s) in state_dict: {missing}. "] if missing else []
    lines += [f"\tUnexpected key(s) in state_dict: {unexpected}. "] if unexpected else []
    return "\n".join(lines)


WRAPPED = state_dict('"conv1.weight", "conv1.bias"', '"module.conv1.weight", "module.conv1.bias"')
UNWRAPPED = state_dict('"module.conv1.weight", "module.conv1.bias"', '"conv1.weight", "conv1.bias"')
OTHER_HEAD = state_dict('"module.head.weight", "module.head.bias"', '"module.fc.weight", "module.fc.bias"')
HEAD_MISSING = state_dict('"module.head.weight", "module.head.bias"', "")
OTHER_NAMES = state_dict('"backbone.conv1.weight"', '"module_list.0.weight"')


# ---- A04: the mask, by the journal


def mask(launch: str | None, now: str | None) -> dict[str, Any]:
    return facts(environment={"cuda_visible_devices_launch": launch, "cuda_visible_devices_now": now})


# ---- A08: ranks 4 to 7 of eight on the second machine


def second_machine(text: str, visible: int | None = None) -> Scene:
    """Rank 5, local rank 1, fails with this text; ``visible``: as many devices torch counts there."""

    def scene(second: int) -> Snapshot:
        shot = wrote(raised(text), world=4)(second)
        (run,) = shot.runs
        seen = {} if visible is None else {"torch": {"device_count": visible}}
        ranks = tuple(replace(r, rank=r.rank + 4, world_size=8, facts=seen) for r in run.ranks)
        logs = tuple(replace(match, rank=5) for match in shot.logs)
        return replace(shot, runs=(replace(run, ranks=ranks),), logs=logs)

    return scene


def first_machine(second: int) -> Snapshot:
    """Ranks and local ranks agree."""
    shot = second_machine(ORDINAL)(second)
    (run,) = shot.runs
    ranks = tuple(replace(r, rank=r.rank - 4) for r in run.ranks)
    return replace(shot, runs=(replace(run, ranks=ranks),), logs=tuple(replace(match, rank=1) for match in shot.logs))


# ---- LOG

WARNED = f"[rank0]:[W1121 04:24:45.270 train.cpp:12] Warning: {FORKED}\n" + LATER
PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:38826."


def in_the_journal(message: str) -> Scene:
    """Nobody captured the output; the tracking caught the exception."""

    def scene(second: int) -> Snapshot:
        error = {"type": "RuntimeError", "message": message.removeprefix("RuntimeError: "), "where": "train.py:41"}
        return replace(wrote("", **facts(error=error))(second), logs=())

    return scene


SKIPPED = "_IncompatibleKeys(missing_keys=['0.weight', '0.bias'], unexpected_keys=['module.0.weight', 'module.0.bias'])\n"
NEW_HEAD = "_IncompatibleKeys(missing_keys=['fc.weight', 'fc.bias'], unexpected_keys=['old_fc.weight'])\n"
trains_without_its_weights = wrote(SKIPPED + PROGRESS, "running")
trains_a_new_head = wrote(NEW_HEAD + PROGRESS, "running")

PAIRS: tuple[Pair, ...] = (
    # The same words, after which the training went on; what ended it has its own verdict.
    *(
        Pair(rule, f"{name}, {how}", wrote(shown(text), **said), failed(text, **said), 8, verdict="exception")
        for rule, name, text, said in (
            ("A04", "an unknown error", UNSEEN, mask(None, "2,3")),
            ("A12", "no CUDA", NO_CUDA, {}),
            ("A13", "two devices", TWO_DEVICES, {}),
            ("B09", "not on the first device", NOT_ON_FIRST, {}),
            ("C13", "names with a prefix", WRAPPED, {}),
            ("C15", "wrapped on the CPU", ON_CPU, {}),
            ("H02", "out of memory", FULL, {}),
        )
        for how, shown in (("caught", caught), ("quoted", quoted))
        if how == "caught" or "\n" not in text
    ),
    # The same words of a job that goes on, or has ended well.
    *(
        Pair(rule, f"{name}, {state}", wrote(raised(text), state, **said), failed(text, **said), 8, at_most="possible")
        for rule, name, text, said in (
            ("A04", "an unknown error", UNSEEN, mask(None, "2,3")),
            ("A12", "no CUDA", NO_CUDA, {}),
            ("A13", "two devices", TWO_DEVICES, {}),
            ("B09", "not on the first device", NOT_ON_FIRST, {}),
            ("C13", "names with a prefix", WRAPPED, {}),
            ("C15", "wrapped on the CPU", ON_CPU, {}),
            ("H02", "out of memory", FULL, {}),
        )
        for state in ("running", "finished")
    ),
    # Nearly the same words, and another cause.
    Pair(
        "A04",
        "the mask of the launch",
        failed(UNSEEN, **mask("2,3", "2,3")),
        failed(UNSEEN, **mask(None, "2,3")),
        8,
        verdict="A12",
    ),
    Pair("A04", "no mask at all", failed(UNSEEN, **mask(None, None)), failed(UNSEEN, **mask(None, "2,3")), 8, verdict="A12"),
    Pair(
        "A08",
        "LOCAL_RANK, and a mask of one GPU",
        second_machine(ORDINAL, 1),
        second_machine(ORDINAL),
        8,
        verdict="invalid_ordinal",
    ),
    Pair("A08", "a checkpoint of cuda:5", second_machine(OTHER_ORDINAL), second_machine(ORDINAL), 8, verdict="H01"),
    Pair("A08", "the first machine", first_machine, second_machine(ORDINAL), 8, verdict="invalid_ordinal"),
    Pair("A12", "a checkpoint of another GPU", failed(OTHER_ORDINAL), failed(NO_CUDA), 8, verdict="H01"),
    Pair("A13", "two types on one device", failed(HALF), failed(NOT_ON_GPU), 8, verdict="two_dtypes"),
    Pair("A13", "in a replica of DataParallel", of_dp.replica_state, failed(TWO_DEVICES), 8, verdict="B10"),
    Pair("B09", "wrapped in DDP on the CPU", failed(ON_CPU), failed(NOT_ON_FIRST), 8, verdict="C15"),
    Pair("B09", "tensors of one operation", failed(TWO_DEVICES), failed(NOT_ON_FIRST), 8, verdict="A13"),
    Pair("C13", "another head, both wrapped", failed(OTHER_HEAD), failed(UNWRAPPED), 8, verdict="state_dict_names"),
    Pair("C13", "a head that is new", failed(HEAD_MISSING), failed(UNWRAPPED), 8, verdict="state_dict_names"),
    Pair("C13", "a module named module_list", failed(OTHER_NAMES), failed(WRAPPED), 8, verdict="state_dict_names"),
    Pair(
        "C13",
        "another head, by the journal",
        in_the_journal(OTHER_HEAD),
        in_the_journal(WRAPPED),
        8,
        verdict="state_dict_names",
    ),
    Pair("A13", "two types, by the journal", in_the_journal(HALF), in_the_journal(NOT_ON_GPU), 8, verdict="two_dtypes"),
    Pair("C15", "a model on two GPUs", failed(SPREAD), failed(ON_CPU), 8, verdict="ddp_devids_spread"),
    Pair("H02", "memory of the host", failed(HOST_FULL), failed(FULL), 8, verdict="exception"),
    Pair("H02", "memory that another process has", failed(FULL_OF_OTHERS), failed(FULL), 8, verdict="H03"),
    Pair(
        "LOG",
        "memory that a rank of its own has",
        with_its_own_rank,
        failed(FULL_OF_OTHERS, world=4),
        8,
        verdict="H02",
        told_as="H03",
    ),
    Pair("H02", "memory by Slurm's limit", wrote(LINES["slurm_oom"] + "\n"), failed(FULL), 8, verdict="H05"),
    Pair("I04", "an illegal access", failed(LINES["illegal"]), failed(LINES["ecc"]), 8, verdict="illegal"),
    # Of texts without a rule of their own.
    Pair("LOG", "forked, caught", wrote(caught(FORKED)), failed(FORKED), 8, verdict="exception", told_as="fork_cuda"),
    Pair("LOG", "forked, running", wrote(raised(FORKED), "running"), failed(FORKED), 8, told_as="fork_cuda"),
    Pair("LOG", "forked, finished", wrote(raised(FORKED), "finished"), failed(FORKED), 8, told_as="fork_cuda"),
    Pair("LOG", "forked, as a warning", wrote(WARNED), failed(FORKED), 8, verdict="exception", told_as="fork_cuda"),
    Pair("LOG", "a head that is new on purpose", trains_a_new_head, trains_without_its_weights, 8, told_as="not_loaded"),
    Pair("LOG", "what follows from another rank", failed(PEER), failed(FORKED), 8, told_as="fork_cuda"),
)
LOOK_ALIKES = look_alikes(PAIRS)
