"""Runs a program in other people's style, attached or under ``gputop run``, while a sampler of virtual GPUs feeds a doctor.

Each program has its own folder and GPUTOP_DIR, and its output goes to a file, as usual. Virtual GPUs are this machine's cores:
findings about other people's processes are ignored. Programs for a real GPU are watched on this machine's GPUs instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from accuracy.cases import REPOSITORY, Answer, Case, is_alarm, judge
from accuracy.live import gpus, own_directory
from gputop.agent.sampler import Sampler
from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot

Onset = Literal["first line", "last line", "end"]
How = Literal["attached", "tracked"]
INTERVAL_S = 1.0
STEADY_S, SETTLED_S = 4.0, 40.0
"""How long a correct verdict must have stood before a program ends: if it is certain, and otherwise. Most rules judge what they
saw in the last 40 s or less: by then, a wrong finding has had its time to come before it."""
AFTER_END_S = 6.0
_NOT_FINITE = {"J01", "nan_loss"}
_NAN = re.compile(rb"\b(?:nan|inf)\b", re.IGNORECASE)
_NAN_BYTES = 3
"""A word may be cut between two looks at the output."""


@dataclass(frozen=True, slots=True)
class Program:
    """``command`` runs in the folder of its half's programs; ``onset`` says from which output on the fault is visible.

    A loss that becomes NaN is visible from the first NaN on, whatever ``onset`` says.

    ``gpu``: it needs a real GPU.
    """

    case: Case
    command: tuple[str, ...]
    ranks: int = 1
    onset: Onset = "first line"
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a program: the answer, the seconds from the onset to the right verdict, and what its output explains.

    ``certain`` is true if the doctor was certain of what it said first.
    """

    answer: Answer
    delay_s: float | None
    from_log: Answer
    said: tuple[str, ...]
    certain: bool


def with_python(name: str, *options: str) -> tuple[str, ...]:
    """Return the command of a script without a launcher."""
    return (sys.executable, "-u", f"{name}.py", *options)


def with_torchrun(name: str, *options: str) -> tuple[str, ...]:
    """Return the command of a script with two ranks."""
    return (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", f"{name}.py", *options)


ALL: tuple[Program, ...] = (
    Program(Case("slow-getitem", ("D01",)), with_python("slow_getitem", "--bs", "16")),
    Program(Case("yaml-zero-lr", ("J03",)), with_python("yaml_zero_lr", "model.width=512")),
    Program(Case("no-wrapper", ("C03",), outside_trace=False), ("bash", "no_wrapper.sh"), 2),
    Program(Case("diverges", ("J01", "J02", "nan_loss")), with_python("diverges")),
    Program(
        Case("barrier-on-rank-zero", ("C08",), acceptable=("G01",)), with_torchrun("barrier_on_rank_zero"), 2, onset="last line"
    ),
    Program(
        Case("rank-dies-in-data", ("exception",), "IndexError", ("G04", "LOG")),
        with_torchrun("rank_dies_in_data"),
        2,
        onset="end",
    ),
    Program(Case("same-batches", ("C05",), outside_trace=False), with_torchrun("same_batches"), 2),
    Program(Case("keeps-every-loss", ("E10",)), with_python("keeps_every_loss")),
    Program(Case("healthy-hand-allreduce"), with_python("hand_allreduce"), 2),
    Program(Case("healthy-gan-program"), with_python("gan")),
    Program(Case("healthy-reinforce"), with_python("reinforce")),
    Program(Case("healthy-sweep"), ("bash", "sweep_two.sh"), 2),
    Program(Case("healthy-server"), with_python("serve")),
    # The optimizer holds the parameters of the model before it was copied: the loss is constant.
    Program(Case("stale-optimizer", ("J03",)), with_python("stale_optimizer")),
    # Rank 1 has fewer batches and is in the evaluation's all_gather while rank 0 is in a backward.
    Program(Case("short-shard", ("C07", "C08"), acceptable=("G01",)), with_torchrun("short_shard"), 2, onset="last line"),
    # Rank 1 reads over a slow mount, and rank 0 waits for it in each backward.
    Program(Case("slow-mount", ("F01",), acceptable=("D01",)), with_torchrun("slow_mount"), 2),
    # In each batch one of two heads takes no part in the loss.
    Program(Case("two-heads", ("C09",)), with_torchrun("two_heads"), 2, onset="end"),
    # Actors with small networks and a learner; the loss changes its sign, as it may.
    Program(Case("healthy-actor-learner"), with_python("actor_learner")),
    # Five steps of the critic for one of the generator, whose losses have no floor at 0.
    Program(Case("healthy-wgan"), with_python("wgan_gp")),
    # A pipeline by send and recv: the ranks hold different layers and need no wrapper.
    Program(Case("healthy-two-stages"), with_torchrun("two_stage"), 2),
    # A search in one process: each trial begins anew, and one that diverges is dropped on purpose.
    Program(Case("healthy-random-search"), with_python("random_search")),
)


def stands(findings: Sequence[Finding], right_s: float) -> bool:
    """Return whether a correct first finding, which has stood for ``right_s``, counts, and the program can end."""
    certain = bool(findings) and findings[0].confidence == "certain"
    return right_s > (STEADY_S if certain else SETTLED_S)


def watch(program: Program, how: How, seconds: float) -> Verdict:
    """Run a program, watch it for ``seconds`` from its first line, and return what was said about it.

    It ends earlier if a correct verdict ``stands``. A healthy one is watched all the time, as an alarm may come late. A program
    that prints nothing is watched for twice as long: on a crowded machine, it takes long to begin.
    """
    case = program.case
    with own_directory() as directory, tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        output = Path(folder) / "train.log"
        source = gpus(program.gpu, count=2)
        sampler, doctor = Sampler(source, INTERVAL_S), Doctor()
        sampler.take()
        process = _start(program, how, directory, output, _copied(program, Path(folder)))
        try:
            answer, delay_s, last = _watch(program, sampler, doctor, process, output, seconds)
            # As it is now: what a launcher prints when the benchmark stops it is no part of the case.
            from_log = judge(case, explain_logs([str(shutil.copy(output, Path(folder) / "copy.log"))])[0])
        finally:
            _stop(process, mark_of(output))
            source.close()
        said, certain = tuple(item.id for item in last), bool(last) and last[0].confidence == "certain"
        return Verdict(answer, delay_s, from_log, said, certain)


def _copied(program: Program, folder: Path) -> Path:
    """Return a copy of the programs' folder for this one alone: a file that two write belongs to neither, for the doctor."""
    programs = program.case.folder / "programs"
    return Path(shutil.copytree(programs, folder / "programs", ignore=shutil.ignore_patterns("__pycache__")))


def _start(program: Program, how: How, directory: str, output: Path, programs: Path) -> subprocess.Popen[bytes]:
    mask = ",".join(str(index) for index in range(program.ranks))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GPUTOP_")}
    if not program.gpu:
        environment["GPUTOP_VIRTUAL_DEVICES"] = mask
    environment |= {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "PORT": str(_free_port())}
    command = program.command
    if how == "tracked":
        environment["GPUTOP_DIR"] = directory
        command = (sys.executable, "-m", "gputop", "run", "--", *command)
    environment["STRANGER"] = mark_of(output)
    environment["PYTHONPATH"] = str(REPOSITORY)
    with output.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=programs,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def mark_of(output: Path) -> str:
    """Return a word that identifies the program: its folder's name."""
    return output.parent.name


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _stop(process: subprocess.Popen[bytes], mark: str) -> None:
    """End the program's processes: launchers, ranks and workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(4.0)
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: str) -> set[int]:
    """Return the processes of a program, by a word in their environment, because torchrun gives each rank its own session."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found


def _watch(
    program: Program, sampler: Sampler, doctor: Doctor, process: subprocess.Popen[bytes], output: Path, seconds: float
) -> tuple[Answer, float | None, list[Finding]]:
    began = time.monotonic()
    own = Own()
    alarms: dict[str, Finding] = {}
    findings: list[Finding] = []
    standing: list[Finding] = []
    first_s = ended_s = None
    printed = _Printed(output)
    steady = 0.0
    while (now := time.monotonic() - began) < seconds + min(
        seconds, printed.first_s if printed.first_s is not None else seconds
    ):
        if ended_s is not None and now - ended_s >= AFTER_END_S:
            break
        if process.poll() is not None and ended_s is None:
            ended_s = now
        printed.look(now)
        marked = _marked(mark_of(output))
        snapshot = sampler.take()
        own.see(snapshot, marked)
        standing = [item for item in doctor.observe(snapshot) if own.concerns(item)]
        findings = standing or findings
        alarms.update((item.id, item) for item in standing if is_alarm(item))
        right = bool(standing) and judge(program.case, standing) in ("right", "acceptable")
        if standing:
            first_s = (now if first_s is None else first_s) if right else None
        steady = steady + INTERVAL_S if right else 0.0
        if program.case.right and stands(standing, steady):
            break
        time.sleep(max(0.0, INTERVAL_S - (time.monotonic() - began - now)))
    onset_s = {"first line": printed.first_s, "last line": printed.last_s, "end": ended_s}[program.onset]
    if printed.nan_s is not None and not _NOT_FINITE.isdisjoint(program.case.right):
        onset_s = printed.nan_s
    delay_s = max(0.0, first_s - onset_s) if first_s is not None and onset_s is not None else None
    last = findings if program.case.right else list(alarms.values())
    return judge(program.case, last, bool(doctor.undecided)), delay_s, last


@dataclass(slots=True)
class _Printed:
    """When the program printed its first line, its last one, and its first NaN."""

    path: Path
    size: int = 0
    first_s: float | None = None
    last_s: float | None = None
    nan_s: float | None = None

    def look(self, now: float) -> None:
        size = self.path.stat().st_size
        if size > self.size:
            self.first_s = now if self.first_s is None else self.first_s
            if self.nan_s is None and _NAN.search(self._from(self.size)) is not None:
                self.nan_s = now
            self.last_s, self.size = now, size

    def _from(self, position: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(max(0, position - _NAN_BYTES))
            return file.read()


@dataclass(slots=True)
class Own:
    """What belongs to the program, so that findings about others who train on the machine are left out.

    Its journals are the only ones in this GPUTOP_DIR. Untracked runs may be anybody's, and are known by their processes for as
    long as these live; the findings on a run outlive them.
    """

    pids: set[int] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def see(self, snapshot: Snapshot, pids: set[int]) -> None:
        """Note the processes of the program, and whose each untracked run is."""
        self.pids |= pids
        for run in snapshot.process_runs:
            mine = bool(self.pids & {rank.pid for rank in run.ranks})
            (self.runs if mine else self.others).update({run.key, *run.curve_ids})

    def concerns(self, finding: Finding) -> bool:
        """Return whether a finding is about the program or about the machine."""
        if finding.pids:
            return bool(self.pids & set(finding.pids))
        if finding.run is None:
            return finding.id not in ("H05", "I10")  # about the machine, whatever runs on it
        return finding.run in self.runs or finding.run not in self.others
