"""Pairs of scenes: a fault, and what lies near to it and is none. One helper plays both, so that either can fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.scan import LogScan
from gputop.jobs.output.matches import matches_of
from gputop.jobs.store import Job
from gputop.snapshot import Snapshot
from tests import samples
from tests.doctor.scenes.base import Scene, gpus


@dataclass(frozen=True, slots=True)
class Pair:
    """``near`` is ``fault`` with the one thing changed that makes it innocent. Both are watched for ``seconds``."""

    rule: str
    name: str
    near: Scene
    fault: Scene
    seconds: int
    verdict: str | None = None
    """What stands first in the end of the near scene, where that is a fault of another kind."""
    at_most: str = ""
    """How the near scene may be told of: "possible" for a text that ended nothing, "info" for what is meant on purpose."""
    told_as: str = ""
    """The id of the finding, where that is not the rule's own: LOG tells the cause of the text."""

    @property
    def id(self) -> str:
        """The id under which the rule speaks."""
        return self.told_as or self.rule


LEVELS = ("", "possible", "info", "likely", "certain")


def level(finding: Finding) -> str:
    """How loudly a finding speaks."""
    return "info" if finding.severity == "info" and finding.confidence != "possible" else finding.confidence


@cache  # a fault has several scenes near to it
def heard(scene: Scene, seconds: int) -> tuple[dict[str, str], str | None]:
    """How loudly each id ever spoke, shown or hidden behind another one; and what stood first in the end."""
    doctor = Doctor()
    found: dict[str, str] = {}
    first = None
    for second in range(seconds):
        shown = doctor.observe(scene(second))
        for finding in (*shown, *doctor.suppressed):
            found[finding.id] = max(found.get(finding.id, ""), level(finding), key=LEVELS.index)
        first = shown[0].id if shown else None
    return found, first


def look_alikes(pairs: Iterable[Pair]) -> tuple[tuple[str, str, Scene, int], ...]:
    """Only the near scenes, as rows of LOOK_ALIKES: those for which the doctor reports nothing, or a possibility."""
    return tuple((pair.id, pair.name, pair.near, pair.seconds) for pair in pairs if pair.at_most != "info")


def wrote(log: str, state: str = "failed", world: int = 1, **changes: object) -> Scene:
    """A job whose output is this log, as the launcher reads it, and its run; on a machine with four GPUs that idle."""
    scan = LogScan("out.log")
    scan.feed(log.encode())
    if state != "running":
        scan.end()
    job = Job("run-1", "train", state, ("torchrun", "train.py"), Path())
    logs = matches_of(job, [scan])
    base = samples.run(world, state=state, job_id="run-1")
    run = replace(base, ranks=tuple(replace(rank, **changes) for rank in base.ranks))  # type: ignore[arg-type]

    def scene(second: int) -> Snapshot:
        shot = samples.snapshot(second, devices=gpus([], 4), processes=(), runs=(run,), points=())
        return replace(shot, logs=logs)

    return scene


def raised(error: str, line: int = 41) -> str:
    """A traceback, as Python writes it."""
    return f'Traceback (most recent call last):\n  File "train.py", line {line}, in <module>\n    main()\n{error}\n'


PROGRESS = "".join(f"epoch {epoch} step {step} loss 0.{step}\n" for epoch in range(2) for step in range(4))
