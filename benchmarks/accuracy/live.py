"""Runs a recipe as a real job, watches it on virtual or real GPUs, and records what the doctor says and when.

Each case has its own directory (GPUTOP_DIR), so that the journals and jobs of others are not seen. Virtual GPUs show every
torch process of the user: findings about other processes are ignored.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from accuracy.truth import Truth
from gputop.agent.sampler import Sampler
from gputop.agent.source import choose_source
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Abstained, Finding
from gputop.jobs import stopping, store
from gputop.recipes.catalogue import prepare
from gputop.snapshot import Snapshot
from gputop.sources.base import Source
from gputop.sources.virtual import VirtualSource, default_count

INTERVAL_S = 1.0
STEADY_S = 5.0
"""A correct verdict must last this long to count."""
AFTER_END_S = 8.0
"""How long the doctor still watches after a job has ended, to read the rest of its output and let findings settle."""


@dataclass(slots=True)
class Said:
    """The findings at one moment: seconds since the job began, and (id, confidence, title) of each, verdict first."""

    at_s: float
    findings: tuple[tuple[str, str, str], ...]

    @property
    def first(self) -> str | None:
        """The verdict; None if there is nothing above "possible"."""
        return next((rule for rule, confidence, _ in self.findings if confidence != "possible"), None)

    @property
    def best(self) -> str | None:
        """The verdict; if nothing is above "possible", the first finding."""
        return self.findings[0][0] if self.findings else None


@dataclass(slots=True)
class Outcome:
    """The outcome of one case. Times are seconds since the job began."""

    truth: Truth
    said: list[Said] = field(default_factory=list)
    onset_s: float | None = None
    state: str = ""
    steps: int = 0
    abstained: tuple[Abstained, ...] = ()
    log: str = ""
    evidence: tuple[str, ...] = ()
    traceml: str = ""
    failed: str = ""
    """Why the case itself failed."""

    @property
    def confidence(self) -> str | None:
        """How sure the last verdict was."""
        return next((said.findings[0][1] for said in reversed(self.said) if said.findings), None)

    @property
    def verdict(self) -> str | None:
        """The id that was last shown first; for a run without a fault, only if it is an alarm."""
        firsts = [said.best if self.truth.rule is not None else said.first for said in self.said]
        return next((found for found in reversed(firsts) if found is not None), None)

    @property
    def verdict_s(self) -> float | None:
        """When the true cause was first shown as the verdict."""
        return next((said.at_s for said in self.said if said.best == self.truth.rule), None) if self.truth.rule else None

    @property
    def delay_s(self) -> float | None:
        """From the onset to the verdict."""
        return None if self.verdict_s is None or self.onset_s is None else max(0.0, self.verdict_s - self.onset_s)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Other ids that were shown first at some time, in order of appearance."""
        return tuple(dict.fromkeys(said.first for said in self.said if said.first not in (None, self.truth.rule)))

    @property
    def right(self) -> bool:
        """Whether the true cause was shown first in the end; for a healthy run, whether nothing was reported at all."""
        return not self.failed and self.verdict == self.truth.rule and (self.truth.rule is not None or not self.wrong)


@contextmanager
def own_directory() -> Iterator[str]:
    """Let gputop keep jobs and journals in a directory that is removed afterwards."""
    kept = {name: os.environ.get(name) for name in ("GPUTOP_DIR", "GPUTOP_AUTO")}
    with tempfile.TemporaryDirectory(prefix="doctor-", ignore_cleanup_errors=True) as found:
        os.environ.update(GPUTOP_DIR=found, GPUTOP_AUTO="1")
        try:
            yield found
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def watch(truth: Truth, seconds: float, *, hardware: bool = False) -> Outcome:
    """Run one case until its verdict is stable, its job has ended, or ``seconds`` have passed since its first step.

    Without any step, it is watched for twice as long: on a crowded machine, a job takes long to begin.

    ``hardware``: on this machine's GPUs, instead of two virtual ones.
    """
    outcome = Outcome(truth)
    with own_directory():
        source = gpus(hardware, max(2, default_count()))
        sampler, doctor = Sampler(source, INTERVAL_S), Doctor()
        devices = sampler.take().devices
        recipe = truth.recipe
        launch = prepare(recipe, devices[: max(recipe.min_devices, recipe.default_devices)], truth.values)
        job = store.start(launch)
        began = time.monotonic()
        try:
            _watch(outcome, sampler, doctor, job.id, began, seconds)
        finally:
            if store.find(job.id).active:
                stopping.stop(job.id, grace_s=2.0)
            outcome.log = "\n".join(_tail(job))
            source.close()
    return outcome


def gpus(hardware: bool, count: int) -> Source:
    """Return a started source: this machine's GPUs, or ``count`` virtual ones."""
    if hardware:
        source, problem = choose_source(INTERVAL_S, None)
        if problem:
            raise SystemExit(f"{problem.message} {problem.hint}")
        return source
    virtual = VirtualSource(count)
    virtual.start(INTERVAL_S)
    return virtual


def gpu_count() -> int:
    """Return how many GPUs this machine has."""
    source = gpus(True, 0)
    count = len(source.read().devices)
    source.close()
    return count


def _tail(job: store.Job) -> list[str]:
    lines = []
    for path in sorted(job.directory.rglob("*.log")):
        text = path.read_text(errors="replace")[-4000:]
        lines += [f"--- {path.relative_to(job.directory)}", *text.splitlines()[-40:]]
    return lines


def _watch(outcome: Outcome, sampler: Sampler, doctor: Doctor, job_id: str, began: float, seconds: float) -> None:
    marks = _Marks(outcome.truth.onset)
    due = began
    ended_s: float | None = None
    steady = 0.0
    while (now := time.monotonic() - began) < seconds + marks.stepped(seconds):
        if ended_s is not None and now - ended_s >= AFTER_END_S:
            return
        snapshot = sampler.take()
        findings = [finding for finding in doctor.observe(snapshot) if _concerns(finding, snapshot, job_id)]
        at_s = time.monotonic() - began
        outcome.said.append(Said(at_s, tuple((item.id, item.confidence, item.title) for item in findings)))
        if findings:
            outcome.evidence = tuple(fact.text for fact in findings[0].evidence)
        outcome.abstained = doctor.abstained
        job = store.find(job_id)
        outcome.state = job.state
        if not job.active and ended_s is None:
            ended_s = at_s
        outcome.onset_s, outcome.steps = marks.see(snapshot, job_id, at_s, ended_s)
        steady = steady + INTERVAL_S if outcome.truth.rule and outcome.said[-1].best == outcome.truth.rule else 0.0
        # A verdict that needs only the launch can come before the first step: the delay is known once both have been seen.
        if steady >= STEADY_S and outcome.onset_s is not None:
            return
        due = max(due + INTERVAL_S, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


@dataclass(slots=True)
class _Marks:
    """Records when the fault could first be seen."""

    onset: str
    stepped_s: float | None = None
    moved_s: float | None = None
    steps: int = 0

    def stepped(self, seconds: float) -> float:
        """Return when the first step came, at most ``seconds``."""
        return seconds if self.stepped_s is None else min(seconds, self.stepped_s)

    def see(self, snapshot: Snapshot, job_id: str, at_s: float, ended_s: float | None) -> tuple[float | None, int]:
        steps = sum(rank.step or 0 for run in snapshot.runs if run.run_id.startswith(job_id) for rank in run.ranks)
        if steps > self.steps:
            self.stepped_s = at_s if self.stepped_s is None else self.stepped_s
            self.steps, self.moved_s = steps, at_s
        marks = {"start": 0.0, "steps": self.stepped_s, "stall": self.moved_s, "end": ended_s}
        return marks[self.onset], self.steps


def _concerns(finding: Finding, snapshot: Snapshot, job_id: str) -> bool:
    """Return whether a finding is about the job, or about the machine; others train here too."""
    if finding.run is not None:
        return finding.run.startswith(job_id)
    own = {p.pid for p in snapshot.processes if p.environment is not None and p.environment.gputop_job_id == job_id}
    return not finding.pids or bool(own & set(finding.pids))
