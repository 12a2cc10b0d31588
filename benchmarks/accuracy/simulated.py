"""Plays the simulated scenes of tests/doctor/scenes and tests/doctor/rules/test_healthy.py, one snapshot per second."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gputop.doctor.diagnosis import Doctor
from gputop.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
Doctor.raises = True  # a rule that fails is a failure here
HEALTHY_S = 150
"""How long each scene of tests/doctor/rules/test_healthy.py is watched."""


@dataclass(frozen=True, slots=True)
class SceneOutcome:
    """The outcome of one scene. ``kind`` is "fault", "look-alike" or "healthy"; the fault is present from second 0 on."""

    room: str
    kind: str
    name: str
    rule: str | None
    verdict: str | None
    verdict_s: int | None
    wrong: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether a fault was first at the end, a look-alike was never called a fault, or a healthy scene had no finding."""
        if self.kind == "fault":
            return self.verdict == self.rule
        return not self.wrong


def play_all(only: Callable[[str], bool]) -> Iterator[SceneOutcome]:
    """Play every scene whose rule or name was requested."""
    sys.path.insert(0, str(ROOT))
    scenes = ROOT / "tests" / "doctor" / "scenes"
    for path in sorted(scenes.rglob("[a-z]*.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        room = path.relative_to(scenes).with_suffix("").as_posix()
        for rule, name, scene, seconds in getattr(module, "FAULTS", ()):
            if only(rule) or only(name):
                yield _play(room, "fault", name, rule, scene, seconds)
        for rule, name, scene, seconds in getattr(module, "LOOK_ALIKES", ()):
            if only(rule) or only(name):
                yield _play(room, "look-alike", name, rule, scene, seconds)
        for name, scene, seconds in getattr(module, "HEALTHY", ()):
            if only("healthy") or only(name):
                yield _play(room, "healthy", name, None, scene, seconds)
    for scene in importlib.import_module("tests.doctor.rules.test_healthy").SCENES:
        name = scene.__name__.replace("_", " ")
        if only("healthy") or only(name):
            yield _play("healthy", "healthy", name, None, scene, HEALTHY_S)


def _play(room: str, kind: str, name: str, rule: str | None, scene: Callable[[int], Snapshot], seconds: int) -> SceneOutcome:
    doctor = Doctor()
    firsts: list[str | None] = []
    alarms: dict[str, None] = {}
    for second in range(seconds):
        findings = doctor.observe(scene(second))
        firsts.append(findings[0].id if findings else None)
        alarms.update((item.id, None) for item in findings if item.confidence != "possible")
    seen = [found for found in alarms if found == rule] if kind == "look-alike" else list(alarms)
    wrong = [found for found in dict.fromkeys(firsts) if found not in (None, rule)] if kind == "fault" else seen
    first_s = next((second for second, found in enumerate(firsts) if rule is not None and found == rule), None)
    return SceneOutcome(room, kind, name, rule, firsts[-1], first_s, tuple(found for found in wrong if found))
