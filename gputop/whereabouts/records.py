"""The records of an answer to "where is every rank?", which ``where`` fills, and of what a main thread does, which
``activities`` judges. The command and the screen show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gputop.wire import AnswerLine

PlaceState = Literal[
    "answers", "silent", "stopped", "traced", "disk", "ended", "elsewhere", "untracked", "before_torch", "forked"
]
"""State of a rank: it answered; does not answer; is stopped by a signal; is held by a tracer; waits for a disk; has ended;
runs on another machine; contains nothing that answers gputop's questions; has not imported torch, before which it says
nothing; or was forked, so that it says nothing before its first step. What was forked is listed, but no verdict counts it."""


@dataclass(frozen=True, slots=True)
class WhereQuestion:
    """A screen's question: where are the ranks of a run?

    ``run_id``: its id, or the key of a run without a journal, whose ranks are the processes ``pids``. The answer repeats it.
    """

    run_id: str
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One rank, or one process where there are no ranks. Times are wall clock, seconds since the epoch."""

    rank: int | None
    pid: int | None = None
    hostname: str | None = None
    state: PlaceState = "untracked"
    source: str | None = None
    """Where ``line`` comes from: "rank", "signal", "memory" (read from outside) or "py-spy"; None without a stack."""
    line: str | None = None
    """The line of the user's own code, such as "train.py:88"."""
    function: str | None = None
    phase: str | None = None
    operation: str | None = None
    """The collective that it is in, as torch calls it."""
    begun: int | None = None
    """Collectives that the group of all ranks has begun in this rank, by torch's count."""
    completed: int | None = None
    next_number: int | None = None
    """Of a rank that is behind: the number of the collective that it has to begin next, by the same count."""
    next_operation: str | None = None
    """What that collective is, as the ranks that wait in it call it. None: no rank waits in it, so nobody can know."""
    step: int | None = None
    since: float | None = None
    """When it arrived there."""
    at: float | None = None
    """When it reported this itself; None if it did not."""
    doing: str | None = None
    """What its main thread does, according to /proc: "reads /data/x"."""
    process_state: str | None = None
    """The state letter of /proc: R, S, D, T, t, Z."""
    kernel_function: str | None = None
    """The kernel function that the main thread waits in (wchan)."""
    cpu_percent: float | None = None
    """CPU use while it was asked; 100 is one core."""
    still: bool | None = None
    """Whether its main thread was given no core at all while it was asked; None if /proc does not tell."""
    exit_code: int | None = None
    world_size: int | None = None
    """World size of its run."""
    stack: tuple[str, ...] = ()
    groups: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For each smaller group, by a checksum of its ranks: its size, and how many of its collectives this rank has begun."""

    @property
    def is_there(self) -> bool:
        """Whether its process is on this machine and has not ended."""
        return self.state not in ("ended", "elsewhere")

    @property
    def waits(self) -> bool:
        """Whether it is in a collective, or in backward, where gradients are exchanged unless it is the only rank."""
        if self.state == "silent":  # its counts are outdated, its stack is not
            return self.source == "signal" and self.operation is not None
        exchanges = self.phase == "backward" and self.world_size != 1
        return self.state == "answers" and (self.operation is not None or exchanges or self.is_pending)

    @property
    def is_pending(self) -> bool:
        """Whether torch says that a collective has begun and not ended."""
        return self.begun is not None and self.completed is not None and self.begun > self.completed

    @property
    def stands_s(self) -> float | None:
        """How many seconds it has been there, as of its report."""
        return None if self.since is None or self.at is None else max(0.0, self.at - self.since)


@dataclass(frozen=True, slots=True)
class Whereabouts(AnswerLine):
    """The answer to one question. ``behind`` are the ranks that the others wait for; ``verdict`` says so in words.

    With a verdict and nobody behind, nothing moves: all ranks wait in the same collective.
    """

    KEY = "whereabouts"

    run_id: str | None
    name: str
    taken_at: float
    ranks: tuple[RankPlace, ...] = ()
    behind: tuple[int, ...] = ()
    verdict: str | None = None
    problem: str | None = None
    """Why nothing could be found out; None if something was."""


Activity = Literal[
    "backward",
    "checkpoint",
    "collective",
    "compile",
    "data",
    "environment",
    "evaluation",
    "files",
    "forward",
    "generation",
    "import",
    "memory",
    "metrics",
    "optimizer",
    "other",
    "report",
    "wait",
]
"""Computing (forward, backward, optimizer), preparing a batch (data), waiting for other ranks (collective), or between these:
writing a checkpoint or other files, evaluating, calling the model to generate texts or pictures, computing a metric, drawing or
logging (report), waiting for another program or a service (wait), collecting garbage (memory), stepping an environment,
importing, compiling, or other code."""


class Call(NamedTuple):
    """One call on a stack: the file's path as Python knows it, the line in it, and the function."""

    path: str
    line: int
    function: str
    is_generator: bool = False
    """Whether it is a generator that makes its next value."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What a main thread did at one moment. ``line`` and ``function`` are the innermost of the user's own code, if any."""

    activity: Activity
    line: str | None = None
    """Such as "train.py:88"."""
    function: str | None = None
    text: str | None = None
    """What that line says, shortened; None if its file cannot be read, or has changed since the process started."""

    @property
    def place(self) -> str:
        """Such as "train.py:88 in read_rows: `rows = list(reader)`"; empty if no own code was seen."""
        if not self.line:
            return ""
        inside = f" in {self.function}" if self.function else ""
        return f"{self.line}{inside}{f': `{self.text}`' if self.text else ''}"


FORWARD_MIN = 8
"""Forward passes seen before a wrapper counts as never called (our choice)."""
BACKWARD_MIN = 30
"""Backward passes seen before DDP counts as always under no_sync: with eight micro-batches a step, chance shows that in one run
of 50 (our choice)."""


@dataclass(frozen=True, slots=True)
class HeldLoader:
    """The DataLoader of an untracked training, as its variables show it."""

    name: str
    """The variable's."""
    dataset: str
    """The data set's class."""
    sampler: str
    """The sampler's class."""
    is_plain: bool
    """Whether it is torch's own loader with one of torch's samplers for one process, and no data set that yields by itself."""
    batch_size: int | None = None
    shuffles: bool | None = None
    replicas: int | None = None
    """Among how many ranks a DistributedSampler divides the data; None: it is none."""
    sampler_epoch: int | None = None
    """The epoch that a DistributedSampler was given last; 0: none was."""


@dataclass(frozen=True, slots=True)
class HeldModels:
    """The models of an untracked training, as its variables show them in a backward pass or an optimizer step."""

    names: tuple[str, ...]
    """Their classes, wrappers included."""
    wrapper: str | None = None
    """Class of the first that spreads a model over devices, or of the optimizer or engine that exchanges their gradients."""
    replicates: bool = False
    """Whether one of them exchanges gradients between ranks (DDP, FSDP)."""
    devices: int | None = None
    """Among how many devices nn.DataParallel divides a batch; None without it."""
    evaluates: bool = False
    """Whether all of them are in evaluation mode."""
    differs: tuple[str, ...] = ()
    """Kinds of layers in evaluation mode that behave differently in it: "BatchNorm", "dropout"."""
    batch_norms: int = 0
    """BatchNorm layers in training mode that normalize over this process's own rows only."""


@dataclass(frozen=True, slots=True)
class HeldOptimizers:
    """All optimizers of an untracked training, as its variables show them in a backward pass or an optimizer step."""

    names: tuple[str, ...]
    """Their classes."""
    tensors: int
    """How many tensors they update."""
    rate: float | None = None
    """The highest learning rate of all their groups; None if one is unknown."""
    is_fresh: bool | None = None
    """Whether they keep nothing about any tensor, so that no step has updated one; None of kinds that never keep anything."""
    is_elsewhere: bool | None = None
    """Whether none of their tensors belongs to a model among the variables; None if not all of these were read."""
    twin: str | None = None
    """Then, the class of such a model that has as many tensors."""


@dataclass(frozen=True, slots=True)
class HeldList:
    """A list of tensors, or of what holds some: the variable's name, such as "losses" or "history['loss']", and its length."""

    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the code of an untracked training holds, as far as its variables show it."""

    models: HeldModels | None = None
    loader: HeldLoader | None = None
    epoch: int | None = None
    """Its own count of epochs, from a variable with such a name."""
    calls_wrapper: bool | None = None
    """Whether a wrapper that spreads models was called in some forward pass; None while too few were seen."""
    exchanges: bool | None = None
    """Whether DDP exchanged gradients in some backward pass, rather than being under no_sync; None while too few were seen."""
    updated: tuple[int, int] | None = None
    """How many tensors its only optimizer had updated when first seen, and how many by now, while its only model in DDP stayed
    the same, and does not look for parameters that take no part; None if that is unknown."""
    lists: tuple[HeldList, ...] = ()
    """Its longest lists of tensors, or of what holds some, by name; at most eight."""
    optimizers: HeldOptimizers | None = None
    """Its optimizers; None without any, or if they cannot be read."""
