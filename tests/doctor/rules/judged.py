"""What the tests of every family of rules expect of a scene: one finding first, or none."""

from __future__ import annotations

from gputop.doctor.findings.finding import Finding
from tests.doctor.scenes.base import Scene, ids, play


def assert_first(scene: Scene, seconds: int, rule: str, expected: tuple[str, str, str, str]) -> Finding:
    """Expect the rule's finding first at the end, with this severity, confidence, and parts of its evidence and fix."""
    said = play(scene, seconds)[-1]
    assert ids(said)[:1] == [rule], [(item.id, item.title) for item in said]
    severity, confidence, evidence, fix = expected
    assert (said[0].severity, said[0].confidence) == (severity, confidence)
    assert evidence in " | ".join(fact.text for fact in said[0].evidence)
    assert fix in said[0].fix
    assert said[0].refuted_by
    return said[0]


def assert_silent(scene: Scene, seconds: int) -> None:
    """Expect nothing above "possible" at any second."""
    for second, said in enumerate(play(scene, seconds)):
        assert [(item.id, item.title) for item in said if item.confidence != "possible"] == [], f"at second {second}"
