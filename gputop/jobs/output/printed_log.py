"""Makes a run with points from the metrics in a log, for rules that judge them without a job.

It reads the lines that ``gputop.tracking.printed`` recognizes, and those that print a pace. Printed lines carry no time, so
their points carry the time at which the file was last written.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.batches import Batches
from gputop.doctor.logs.numbers.bound_cores import BoundCores
from gputop.doctor.logs.numbers.clock import Clock
from gputop.doctor.logs.numbers.cpu_quota import CpuQuota
from gputop.doctor.logs.numbers.first_batches import FirstBatches
from gputop.doctor.logs.numbers.gpus.first_collective import FirstCollective
from gputop.doctor.logs.numbers.gpus.gpu_memories import GpuMemories
from gputop.doctor.logs.numbers.gpus.growing_memory import GrowingMemory
from gputop.doctor.logs.numbers.gpus.heat_columns import HeatColumns
from gputop.doctor.logs.numbers.gpus.memory_lines import MemoryLines
from gputop.doctor.logs.numbers.gpus.on_cpu import OnCpu
from gputop.doctor.logs.numbers.gpus.one_process import OneProcess
from gputop.doctor.logs.numbers.gpus.profile_tables import ProfileTables
from gputop.doctor.logs.numbers.gpus.smi_rows import SmiRows
from gputop.doctor.logs.numbers.gpus.smi_tables import SmiTables
from gputop.doctor.logs.numbers.gpus.stated_places import StatedPlaces
from gputop.doctor.logs.numbers.gpus.utilization import Utilization
from gputop.doctor.logs.numbers.growing_parts import GrowingParts
from gputop.doctor.logs.numbers.lightning_profiles import LightningProfiles
from gputop.doctor.logs.numbers.line import Follower, Lines
from gputop.doctor.logs.numbers.lost.beyond import Beyond
from gputop.doctor.logs.numbers.lost.last_report import LastReport
from gputop.doctor.logs.numbers.lost.loss_scale import LossScale
from gputop.doctor.logs.numbers.lost.nan_norms import NanNorms
from gputop.doctor.logs.numbers.lost.not_a_number import NotANumber
from gputop.doctor.logs.numbers.lost.skipped_batches import SkippedBatches
from gputop.doctor.logs.numbers.paces.above_means import AboveMeans
from gputop.doctor.logs.numbers.paces.evaluation_bars import EvaluationBars
from gputop.doctor.logs.numbers.paces.few_times import FewTimes
from gputop.doctor.logs.numbers.paces.stays_slow import StaysSlow
from gputop.doctor.logs.numbers.parts import means_in
from gputop.doctor.logs.numbers.pauses import Pauses
from gputop.doctor.logs.numbers.ranks.checksums import Checksums
from gputop.doctor.logs.numbers.ranks.each_rank import EachRank
from gputop.doctor.logs.numbers.ranks.megatron_stragglers import MegatronStragglers
from gputop.doctor.logs.numbers.ranks.members import Members
from gputop.doctor.logs.numbers.ranks.op_counts import OpCounts
from gputop.doctor.logs.numbers.ranks.rank_columns import RankColumns
from gputop.doctor.logs.numbers.ranks.rank_tables import RankTables
from gputop.doctor.logs.numbers.ranks.same_samples import SameSamples
from gputop.doctor.logs.numbers.ranks.slowest_ranks import SlowestRanks
from gputop.doctor.logs.numbers.ranks.unequal_bars import UnequalBars
from gputop.doctor.logs.numbers.ranks.waiting_calls import WaitingCalls
from gputop.doctor.logs.numbers.running_means import RunningMeans
from gputop.doctor.logs.numbers.said_shares import SaidShares
from gputop.doctor.logs.numbers.stands_still import StandsStill
from gputop.doctor.logs.numbers.stated import Stated
from gputop.doctor.logs.numbers.step_parts import StepParts
from gputop.facts.setup import Progress
from gputop.snapshot import Points, Rank, Run, loss_metric
from gputop.terminal_text import strip_escapes
from gputop.tracking.printed import rates
from gputop.tracking.printed.languages import in_english
from gputop.tracking.printed.lines import LINE_CHARACTERS, SOURCE, parse
from gputop.tracking.printed.names import EVALUATION, is_evaluation
from gputop.tracking.printed.stages import stage_of
from gputop.tracking.printed.tables import Tables
from gputop.tracking.printed.transcript import Transcript

READ_BYTES = 1 << 20
"""How much is read at a time."""
TIMED_S = 5.0
"""The pace is taken from lines that were written so far apart: their times may be whole seconds."""
BARS_MAX = 1024
"""At most this many progress bars, by name and total, are followed."""
RUN_ID = "log"
"""The id of the run that such a log shows."""
_ELAPSED = re.compile(r"\| {0,9}\d{1,12}/\d{1,12} \[(?:(\d{1,4}):)?(\d\d):(\d\d)<")
_OF_DATA = re.compile(
    r"(?i)\W{0,4}(?:skipping|map|filter|tokeniz|running tokenizer|generating|downloading|loading|converting|grouping|caching)"
)
"""The names of bars about the data, before the training or within it."""
_Columns = dict[str, tuple[list[int], list[float]]]
"""The steps and the values of each metric."""
_BAR = re.compile(r"^(?P<name>[^|]*?)\d{1,3}%\|.*?(?<!\d)(?P<done>\d+)/(?P<total>\d+) \[")


def printed_run(path: Path) -> tuple[Run, tuple[Points, ...]] | None:
    """Return the run that a log shows, named after the file; None if it contains no metric, or is not a file to read again."""
    transcript = Transcript(with_bars=True)
    columns: _Columns = {}
    paces = _Paces()
    try:
        if not path.is_file():  # a pipe has been read, and opening it again would wait for another writer
            return None
        with path.open("rb") as file:
            written_at = path.stat().st_mtime
            for data in iter(lambda: file.read(READ_BYTES), b""):
                paces.feed(data)
                _add(columns, transcript.feed(data))
    except OSError:
        return None
    paces.feed(b"\n")
    _add(columns, transcript.end())
    columns = {**columns, **_at_steps(paces.columns(), columns)}
    if not columns:
        return None
    metrics = {name: values[-1] for name, (_, values) in columns.items()}
    counted = {"progress": Progress.filled(total_steps=None, counts_lines=True)} if transcript.counts_lines else {}
    rank = Rank(0, state="running", world_size=1, metrics=metrics, facts={"source": SOURCE, **counted})
    run = Run(RUN_ID, path.name, state="running", world_size=1, ranks=(rank,))
    return run, tuple(
        Points(RUN_ID, 0, name, tuple(steps), (written_at,) * len(steps), tuple(values))
        for name, (steps, values) in columns.items()
    )


def printed_findings(path: Path) -> tuple[Finding, ...]:
    """Return what the numbers in a log say that no metric holds; nothing if the file cannot be read again.

    Of each id, only the first finding: what compares ranks says more than what holds for all of them.
    """
    followers: tuple[Follower, ...] = (
        *(
            EachRank(),
            RankColumns(),
            RankTables(),
            SlowestRanks(),
            OpCounts(),
            NotANumber(),
            Beyond(),
            OneProcess(),
            Pauses(),
            FirstBatches(),
            GrowingParts(),
            RunningMeans(),
            StepParts(),
        ),
        *(
            StaysSlow(),
            AboveMeans(),
            FewTimes(),
            EvaluationBars(),
            GrowingMemory(),
            MemoryLines(),
            StandsStill(),
            Stated(),
            Batches(),
            Checksums(),
            SameSamples(),
            WaitingCalls(),
            StatedPlaces(),
            OnCpu(),
            CpuQuota(),
            LightningProfiles(),
            SaidShares(),
            MegatronStragglers(),
            BoundCores(),
            Members(),
        ),
        *(NanNorms(), LossScale(), SkippedBatches(), LastReport(), UnequalBars()),
        *(ProfileTables(), SmiRows(), HeatColumns(), SmiTables(), GpuMemories(), Utilization(), FirstCollective()),
    )
    reader = Lines()
    try:
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                for line in reader.of(strip_escapes(text) for text in iter(lambda: file.readline(READ_BYTES), "")):
                    for follower in followers:
                        follower.read(line)
    except OSError:
        return ()
    found: dict[str, Finding] = {}
    for follower in followers:
        for finding in follower.findings():
            before = found.get(finding.id)
            if before is None or (before.confidence == "possible" and finding.confidence != "possible"):
                found[finding.id] = finding
    return tuple(found.values())


def _add(columns: _Columns, found: object) -> None:
    for step, metrics in found:  # type: ignore[attr-defined]
        for name, value in metrics.items():
            steps, values = columns.setdefault(name, ([], []))
            steps.append(step)
            values.append(value)


def _at_steps(paces: _Columns, columns: _Columns) -> _Columns:
    """Return the paces at the steps of the loss where each of its lines has one."""
    name = loss_metric(columns)
    steps = columns[name][0] if name is not None else []
    return {name: (steps if len(values) == len(steps) else numbers, values) for name, (numbers, values) in paces.items()}


def _is_elapsed(seconds: list[float]) -> bool:
    """Return whether a table's column of times holds those since the start: it never falls."""
    return (
        len(seconds) > 2 and all(before <= after for before, after in itertools.pairwise(seconds)) and seconds[0] < seconds[-1]
    )


class _Paces:
    """The pace in each line of a training, in order; of progress bars without a loss, only the one with the most lines."""

    def __init__(self) -> None:
        self._rest = ""
        self._columns: dict[str, list[float]] = {}
        self._bars: dict[tuple[str, str], list[float]] = {}
        self._tables = Tables()
        self._of_tables: list[float] = []
        self._clock = Clock()
        self._timed: tuple[int, float] | None = None
        """The step of a line with a time, and that time."""
        self._elapsed = 0.0
        """The longest time of a bar: that of the whole training includes its evaluations."""
        self._rates: list[float] = []
        """The steps per second by the times of the lines."""
        self._stages: dict[str, list[float]] = {}
        """The stages that the lines with a pace state."""

    def feed(self, data: bytes) -> None:
        """Process the complete lines."""
        *lines, self._rest = re.split(r"[\r\n]+", self._rest + data.decode("utf-8", "replace"))
        self._rest = self._rest[-LINE_CHARACTERS:]
        for line in lines:
            self._take(in_english(strip_escapes(line[:LINE_CHARACTERS])))

    def _take_time(self, line: str) -> None:
        """Take the time at which a line with a step was written, if that is long enough after the one before."""
        at = self._clock.at(line)
        if at is None or (self._timed is not None and 0.0 <= at - self._timed[1] < TIMED_S):
            return
        found = parse(line)
        if found is None or found.step is None or not found.metrics or all(map(is_evaluation, found.metrics)):
            return
        if self._timed is not None and found.step > self._timed[0] and at > self._timed[1]:
            self._rates.append((found.step - self._timed[0]) / (at - self._timed[1]))
        self._timed = found.step, at

    def _take(self, line: str) -> None:
        if self._tables.read(line) is not None:
            for name, value in self._tables.pace.items():
                self._columns.setdefault(name, []).append(value)
            if self._tables.pace.get(rates.STEP_TIME, 0.0) > 0:
                self._of_tables.append(self._tables.pace[rates.STEP_TIME])
                self._columns.setdefault("it_per_sec", []).append(1.0 / self._tables.pace[rates.STEP_TIME])
            return
        for name, value in rates.whole_times(line).items():
            self._columns.setdefault(name, []).append(value)
        if EVALUATION.match(line):
            return
        self._read_elapsed(line)
        found = rates.paces(line)
        if rates.DATA_TIME in found and means_in(line) is not None:
            del found[rates.DATA_TIME]  # RunningMeans reads more of it
        if not found and not self._columns and not self._bars:
            self._take_time(line)
        bar = _BAR.match(line) if found else None
        if bar is not None and parse(line[bar.end() :]) is None:
            if "it_per_sec" in found:
                key = (re.sub(r"\d+", "", bar["name"]), bar["total"])
                if key in self._bars or len(self._bars) < BARS_MAX:
                    self._bars.setdefault(key, []).append(found["it_per_sec"])
            return
        for name, value in found.items():
            self._columns.setdefault(name, []).append(value)
        for name, value in stage_of(line).items() if found else ():
            self._stages.setdefault(name, []).append(value)

    def _read_elapsed(self, line: str) -> None:
        elapsed = _ELAPSED.search(line)
        if elapsed is not None and _OF_DATA.match(line) is None:
            seconds = int(elapsed[1] or 0) * 3600.0 + int(elapsed[2]) * 60.0 + int(elapsed[3])
            self._elapsed = max(seconds, self._elapsed)

    def columns(self) -> _Columns:
        """Return (numbers, values) by name."""
        found = dict(self._columns)
        if _is_elapsed(self._of_tables):
            for name in (rates.STEP_TIME, rates.DATA_TIME, "it_per_sec"):
                found.pop(name, None)
        found |= {name: values for name, values in self._stages.items() if len(values) == len(found.get("it_per_sec", ()))}
        if self._bars and "it_per_sec" not in found:
            found["it_per_sec"] = max(self._bars.values(), key=len)
        elif self._rates and not found:
            found["it_per_sec"] = self._rates
        if self._elapsed and rates.TRAINING_S not in found:
            found[rates.TRAINING_S] = [self._elapsed]
        return {name: (list(range(1, len(values) + 1)), values) for name, values in found.items()}
