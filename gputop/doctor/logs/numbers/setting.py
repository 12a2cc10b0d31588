"""How the processes of a log work together, by its words: what is a fault of data-parallel ranks is none elsewhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ONE_MODEL = ("mesh_dim_names", "ulysses", "cfg parallel", "pipeline stage", "1f1b", "model parallel over", "parallel degree")
_PARALLEL = re.compile(
    r"\b(?P<kind>tensor|pipeline|sequence|context|expert|tp|pp|ep|sp|cp)[-_ ]?(?:model[-_ ]?)?(?:parallel(?:ism)?)?"
    r"(?:[-_ ]?(?:world[-_ ]?)?(?:size|degree|ways?))?(?P<sized>\s?[=:(]\s?(?P<number>\d{1,5})|)"
)
_OF_EXPERTS = frozenset(("expert", "ep"))
_APART = re.compile(
    r"\b(?:local[ -]?sgd|diloco|federat|fedavg|gossip|easgd|ensembles?\b|population|pbt\b|sweep|hyperparam|grid search|optuna|"
    r"trials?\b|grpo\b|majority vote|self-play|actors?\b|rollouts?\b|(?:one|1) (?:run|job|config|trial) (?:per|on each)|"
    r"independent (?:runs|training)|cross-validation)"
)
_ALONE = re.compile(r"\bworld[_ ]?size[ =:]{1,3}1\b")
_OF_RANKS = (
    "rank",
    "world",
    "torchrun",
    "srun",
    "mpirun",
    "nnodes",
    "nccl",
    "gloo",
    "ddp",
    "fsdp",
    "deepspeed",
    "distributed",
    "reduce",
)


class Setting:
    """What the lines so far say. The followers of one log share it."""

    def __init__(self) -> None:
        """Start before the first line."""
        self.is_one_model = False
        """Whether several processes hold parts of one model: they have to see the same samples, and hold other weights."""
        self.shares_only_experts = True
        """Whether they hold nothing but different experts of it, if it is one model: these are meant to get as much to do."""
        self.are_apart = False
        """Whether the processes, or the runs in the log, train or compute by themselves, at least for some time."""
        self.joins = False
        """Whether ranks may have different numbers of batches, in ``torch.distributed.algorithms.Join``."""
        self.names_ranks = False
        """Whether it speaks of ranks, or of what starts or connects them."""
        self.trains = False
        """Whether a line speaks of a training, or of ranks that wait."""

    def read(self, lower: str) -> None:
        """Take the next line, in lower case."""
        self.trains = self.trains or any(word in lower for word in ("loss", "epoch", "train", "grad", "waiting"))
        self.names_ranks = self.names_ranks or any(word in lower for word in _OF_RANKS)
        self.joins = self.joins or "join(" in lower
        self.are_apart = self.are_apart or _APART.search(lower) is not None or _ALONE.search(lower) is not None
        kinds = {"other"} if any(word in lower for word in _ONE_MODEL) else set(_kinds_of_parallelism(lower))
        self.is_one_model = self.is_one_model or bool(kinds)
        self.shares_only_experts = self.shares_only_experts and not kinds - _OF_EXPERTS


def _kinds_of_parallelism(lower: str) -> Iterator[str]:
    """Yield each kind of parallelism within a model that a line names; not if its size is 1."""
    if "parallel" not in lower and "p=" not in lower and "p_size" not in lower and "p:" not in lower:
        return
    for found in _PARALLEL.finditer(lower):
        number = found["number"]
        if "parallel" in found[0] and not number:
            after = re.match(r"\W{0,3}(?:with )?(?:size|degree|ranks?)?\W{0,4}(\d{1,5})", lower[found.end() :])
            number = after[1] if after is not None else "2"
        if number and int(number) > 1:
            yield found["kind"]
