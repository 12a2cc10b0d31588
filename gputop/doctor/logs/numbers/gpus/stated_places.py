"""What lines state of the GPUs of a run: a map of layers, more GPUs than ranks, and little free memory on one of them. Pure."""

from __future__ import annotations

import re
import statistics

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

TRAINED_MIN = 3
"""At least this many lines print a loss: a model that only answers may have its layers anywhere (our choice)."""
FREE_SHARE, TAKEN_SHARE = 0.9, 0.15
"""At the start, at least the first share of each other GPU's memory is free, and on one GPU less by at least the second share
(our choice)."""
RANKS_MAX = 1024
_MAP = re.compile(r"""\{['"][\w.-]{0,80}['"]: (?:\d{1,2}|['"]\w{1,10}['"]), ['"][\w.-]{1,80}['"]: """)
_PLACE = re.compile(r"""['"][\w.]{0,60}(?:layers|layer|h|blocks|block)\.\d{1,3}[\w.-]{0,40}['"]: (\d{1,2})\b""")
_STARTED = re.compile(r"^All distributed processes registered\. Starting with (\d{1,5}) processes")
_SEEN = re.compile(r"^LOCAL_RANK: (\d{1,3}) - CUDA_VISIBLE_DEVICES: \[(\d{1,3}(?:,\d{1,3}){1,63})\]")
_FREE = re.compile(
    r"(?i)\bfree\b[ :=]{0,3}(\d{1,6}(?:\.\d{1,3})?) ?(Gi?B|Mi?B)\W{0,3}(?:(?:of|total)[ :=]{0,3})?"
    r"(\d{1,6}(?:\.\d{1,3})?) ?(?:\2)"
)
_DEVICE = re.compile(r"(?i)\b(?:cuda|gpu)[: ]?(\d{1,3})\b")


class StatedPlaces:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._trained = 0
        self._places: set[int] = set()
        """The GPUs that a printed map names, as far as its line is read."""
        self._started = self._nodes_ranks = 0
        self._seen_gpus = 0
        self._free: dict[int, tuple[float, float]] = {}
        """The free memory and all memory that each GPU, or each rank's, has at first, as printed."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._trained += self._trained < TRAINED_MIN and "loss" in line.lower
        if "{" in line.text and not self._places and _MAP.search(line.text) is not None:
            self._places = set(map(int, _PLACE.findall(line.text)))
        if line.text.startswith("All distributed") and (started := _STARTED.match(line.text)) is not None:
            self._started = int(started[1])
        if line.text.startswith("LOCAL_RANK: ") and (seen := _SEEN.match(line.text)) is not None:
            self._nodes_ranks = max(self._nodes_ranks, int(seen[1]) + 1)
            self._seen_gpus = seen[2].count(",") + 1
        if "free" in line.lower and (free := _FREE.search(line.text)) is not None:
            self._take_free(line, float(free[1]), float(free[3]))

    def findings(self) -> tuple[Finding, ...]:
        """Return what the lines state."""
        found = (self._spread(), self._fewer(), self._taken())
        return tuple(item for item in found if item is not None)

    def _take_free(self, line: Line, free: float, total: float) -> None:
        device = _DEVICE.search(line.text)
        rank = line.speaker.rank if line.speaker is not None else None
        number = int(device[1]) if device is not None else rank
        if number is not None and free <= total and len(self._free) < RANKS_MAX:
            self._free.setdefault(number, (free, total))

    def _spread(self) -> Finding | None:
        """A10: a map of layers names several GPUs, and the run trains."""
        if len(self._places) < 2 or self._trained < TRAINED_MIN:
            return None
        places = sorted(self._places)
        return Finding(
            id="A10",
            severity="warning",
            confidence="possible",
            title="Layers are spread over several GPUs, which work one at a time",
            evidence=(Fact(f"a map puts layers on GPUs {', '.join(map(str, places))}", places, "log"),),
            cause='device_map="auto" puts the first layers on the first GPU, the next ones on the next. While one computes, '
            "the others wait for its output.",
            fix='device_map={"": local_rank}  # the whole model on each rank\'s GPU, started by torchrun or accelerate launch\n'
            "# if it does not fit: FSDP or DeepSpeed ZeRO-3",
            refuted_by="The model does not fit into one GPU, and this speed is enough.",
        )

    def _fewer(self) -> Finding | None:
        """A02: Lightning starts fewer ranks than each of them sees GPUs."""
        if self._started >= self._seen_gpus or self._started != self._nodes_ranks:
            return None
        return Finding(
            id="A02",
            severity="warning",
            confidence="possible",
            title=f"Only {words.count(self._started, 'rank')} started, and {self._seen_gpus} GPUs are visible",
            evidence=(
                Fact(
                    f"Lightning started {self._started} {words.agree(self._started, 'process', 'processes')}",
                    self._started,
                    "log",
                ),
                Fact(f"CUDA_VISIBLE_DEVICES lists {self._seen_gpus} GPUs", self._seen_gpus, "log"),
            ),
            cause="Lightning starts as many ranks as its argument `devices` says, or as Slurm has tasks. The other GPUs "
            "stay idle.",
            fix=f"Trainer(accelerator='gpu', devices={self._seen_gpus})  # or devices='auto'\n"
            f"#SBATCH --ntasks-per-node={self._seen_gpus}  # if Slurm starts it",
            refuted_by="The other GPUs are meant for other runs.",
        )

    def _taken(self) -> Finding | None:
        """H03: one GPU has far less free memory at the start than the others, which are nearly empty."""
        if len(self._free) < 2 or len({total for _, total in self._free.values()}) != 1:
            return None
        total = next(iter(self._free.values()))[1]
        least = min(self._free, key=lambda number: self._free[number][0])
        others = [free for number, (free, _) in self._free.items() if number != least]
        missing = statistics.median(others) - self._free[least][0]
        if total <= 0 or min(others) < FREE_SHARE * total or missing < TAKEN_SHARE * total:
            return None
        return Finding(
            id="H03",
            severity="warning",
            confidence="possible",
            title=f"Another program may hold {missing / total:.0%} of the memory of GPU {least}",
            evidence=(
                Fact(f"free at the start: {self._free[least][0]:g} of {total:g}", self._free[least][0], "log"),
                Fact(f"free on the others: {min(others):g} or more", min(others), "log"),
            ),
            cause="A process that was there before holds it. If it computes too, both take longer, and the ranks on the other "
            "GPUs wait in each step.",
            fix="nvidia-smi  # lists the processes of each GPU\ngputop  # says whose they are, and what they do",
            refuted_by="The run itself had put something there before it printed this.",
        )
