"""How the processes of a log work together, by its words: what is a fault of data-parallel ranks is none elsewhere. Pure."""

from __future__ import annotations

import re

_ONE_MODEL = ("mesh_dim_names", "ulysses", "cfg parallel", "pipeline stage", "1f1b", "model parallel over", "parallel degree")
_PARALLEL = re.compile(
    r"\b(?:tensor|pipeline|sequence|context|expert|tp|pp|ep|sp|cp)[-_ ]?(?:model[-_ ]?)?(?:parallel(?:ism)?)?"
    r"(?:[-_ ]?(?:world[-_ ]?)?(?:size|degree|ways?))?(?P<sized>\s?[=:(]\s?(?P<number>\d{1,5})|)"
)
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
        self.is_one_model = self.is_one_model or any(word in lower for word in _ONE_MODEL) or _is_parallel(lower)


def _is_parallel(lower: str) -> bool:
    """Return whether a line names a kind of parallelism within a model; not if its size is 1."""
    if "parallel" not in lower and "p=" not in lower and "p_size" not in lower and "p:" not in lower:
        return False
    for found in _PARALLEL.finditer(lower):
        if "parallel" in found[0] and not found["number"]:
            after = re.match(r"\W{0,3}(?:with )?(?:size|degree|ranks?)?\W{0,4}(\d{1,5})", lower[found.end() :])
            if after is None or int(after[1]) > 1:
                return True
        elif found["number"] and int(found["number"]) > 1:
            return True
    return False
