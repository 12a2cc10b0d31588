"""What fails while a snapshot is read or taken in: it is told once, and all the rest is read and judged."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import gputop
from gputop.agent.sampler import Sampler
from gputop.agent.source import NoSource
from gputop.cli import main as program
from gputop.doctor.diagnosis import LOST_KEPT_S, Doctor
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroups
from gputop.doctor.findings.finding import EVIDENCE, Abstained
from gputop.doctor.report import text_report
from gputop.errors import UsageError
from gputop.snapshot import NOT_READ, Problem, Snapshot
from gputop.sources.host.reader import HostReader
from gputop.tracking.reader import runs as reader
from gputop.tracking.reader.runs import RunReader
from gputop.tui.lazy_doctor import LateDoctor
from gputop.tui.screens.doctor import DoctorScreen
from tests.doctor.scenes import ddp
from tests.doctor.scenes.base import ids
from tests.real_processes import see_only_own_processes
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.rest import pause_until_rest

FAULT = next(scene for rule, _, scene, _ in ddp.FAULTS if rule == "C01")
PARTS = {
    "processes": "A process of a snapshot could not be processed: ZeroDivisionError: nobody foresaw this",
    "devices": "could not be processed: ZeroDivisionError",
    "points": "A metric of a snapshot could not be processed: ZeroDivisionError",
    "communicators": "The hang times of a snapshot could not be processed: ZeroDivisionError",
    "runs": "could not be processed: ZeroDivisionError",
}
"""Of a snapshot's fields: what is said when an item of theirs fails at every touch."""


class Bad:
    """An item of a snapshot that fails at every touch."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError("nobody foresaw\nthis")


class BadFacts(Mapping[str, Any]):
    """Facts that cannot be looked at."""

    def __getitem__(self, name: str) -> Any:
        raise ZeroDivisionError("no such fact")

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError("no facts")

    def __len__(self) -> int:
        return 1


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures as a person meets them."""
    monkeypatch.setattr(Doctor, "raises", False)
    monkeypatch.setattr(Sampler, "raises", False)


def with_bad(second: int, part: str) -> Snapshot:
    shot = FAULT(second)
    return replace(shot, **{part: (*getattr(shot, part), Bad())})


def lost(doctor: Doctor | LateDoctor) -> list[Abstained]:
    return [item for item in doctor.abstained if item.rule == EVIDENCE]


@pytest.mark.parametrize("part", PARTS)
def test_one_bad_snapshot_ends_nothing_and_is_reported_once(part: str, quiet: None) -> None:
    doctor = Doctor()
    for second in range(30):
        found = doctor.observe(with_bad(second, part) if second == 20 else FAULT(second))
        assert bool(lost(doctor)) == (second >= 20), second
    assert "C01" in ids(found)
    said = lost(doctor)
    assert any(PARTS[part] in item.why for item in said), said
    assert len({item.why for item in said}) == len(said)
    assert all(item.needs.startswith("a fix in gputop") for item in said)
    assert all("test_lost_evidence.py:" in item.why and "\n" not in item.why for item in said)
    assert text_report(found, doctor.abstained, FAULT(30)).count(said[0].why[:30]) == 1


@pytest.mark.parametrize("part", ["processes", "points"])
def test_a_failure_in_every_snapshot_is_reported_once_and_the_rest_is_judged(part: str, quiet: None) -> None:
    doctor = Doctor()
    for second in range(30):
        found = doctor.observe(with_bad(second, part))
    assert "C01" in ids(found)
    assert [item.why for item in lost(doctor) if PARTS[part] in item.why] == [lost(doctor)[0].why]


def test_lost_evidence_is_reported_for_as_long_as_rules_look_back_on_it(quiet: None) -> None:
    doctor = Doctor()
    doctor.observe(with_bad(0, "processes"))
    told = [bool(doctor.observe(FAULT(second)) and lost(doctor)) for second in range(1, int(LOST_KEPT_S) + 10)]
    assert told[20]
    assert not told[-1]
    assert doctor.abstained == () or not lost(doctor)


def test_a_rank_whose_facts_fail_takes_no_other_rank_with_it(quiet: None) -> None:
    def scene(second: int) -> Snapshot:
        shot = FAULT(second)
        (run,) = shot.runs
        ranks = (*run.ranks[:-1], replace(run.ranks[-1], facts=BadFacts()))
        return replace(shot, runs=(replace(run, ranks=ranks),))

    seen = Evidence(lambda what, error: told.append(what))
    told: list[str] = []
    for second in range(5):
        seen.observe(scene(second))
    assert set(told) >= {"a rank"}
    assert seen.stood_s("run-1", 0) < 1.5
    assert Doctor().observe(scene(0)) == ()


def test_findings_stay_while_jobs_cannot_be_grouped(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    doctor = Doctor()
    for second in range(30):
        doctor.observe(FAULT(second))
    monkeypatch.setattr(RankGroups, "of", lambda *_: Bad().groups)
    found = [doctor.observe(FAULT(second)) for second in range(30, 75)]
    assert "C01" in ids(found[15]), "no observation is no clean one"
    assert "C01" not in ids(found[-1])
    assert len(lost(doctor)) == 1


def test_lost_evidence_fails_the_tests() -> None:
    for observe in (Evidence().observe, Doctor().observe):
        with pytest.raises(ZeroDivisionError):
            observe(with_bad(0, "processes"))


async def test_the_screen_shows_lost_evidence(quiet: None) -> None:
    late = LateDoctor()
    late.observe(with_bad(0, "processes"))
    late.load()
    late.observe(FAULT(1))
    assert len(lost(late)) == 1
    app = ScreenApp(DoctorScreen(), view_of(FAULT(1), abstained=late.abstained, diagnosis=late.doctor))
    async with app.run_test(size=(160, 50)) as pilot:
        await pause_until_rest(pilot)
        assert "some evidence was lost" in text_of(app) or "rules could not judge" in text_of(app)


# ---- the sampler


def sampler() -> Sampler:
    return Sampler(NoSource(Problem("no_gpu", "No GPU.", "")), 1.0, runs=RunReader())


def fails(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("nobody foresaw this")


def notes(shot: Snapshot) -> list[str]:
    return [note.message.partition(":")[0] for note in shot.notes if note.code == NOT_READ]


@pytest.mark.parametrize(
    ("target", "name", "said"),
    [
        (NoSource, "read", "The GPUs could not be read"),
        (HostReader, "read_processes", "The processes could not be read"),
        (HostReader, "read_host", "The machine could not be read"),
        (RunReader, "poll", "The runs could not be read"),
        (Sampler, "_add_printed_runs", "The output of jobs could not be read"),
        (Sampler, "_log_matches", "The errors in the output of jobs could not be read"),
        (Sampler, "_extra_fields", "NCCL's own account could not be read"),
    ],
)
def test_a_reader_that_fails_takes_none_of_the_others_with_it(
    target: type, name: str, said: str, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    see_only_own_processes(monkeypatch)  # a NaN that another test prints is not equal to itself
    whole = sampler().take()
    monkeypatch.setattr(target, name, fails)
    reads = sampler()
    shots = [reads.take() for _ in range(3)]
    assert [notes(shot) for shot in shots] == [[said]] * 3
    assert Snapshot.from_json(shots[0].to_json()) == shots[0]
    assert shots[0].host.hostname == whole.host.hostname
    assert (shots[0].host.cpu_count is None) == (name == "read_host")
    doctor = Doctor()
    for shot in shots:
        doctor.observe(shot)
    assert [item.why.partition(":")[0] for item in lost(doctor)] == [said]
    assert not any(finding.id == "I05" for finding in doctor.observe(shots[-1])), "an unread GPU is not lost"


def test_one_run_and_one_process_that_fail_leave_the_others(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        gputop.init(id=name).log(loss=1.0)
    gputop.finish()
    describe = reader.describe

    def odd(followed: Any) -> Any:
        return fails() if followed.run_id == "one" else describe(followed)

    monkeypatch.setattr(reader, "describe", odd)
    shot = sampler().take()
    assert {"one", "two"} & {run.run_id for run in shot.runs} == {"two"}
    assert notes(shot) == ["Run one could not be read"]

    read = HostReader._read
    monkeypatch.setattr(HostReader, "_read", lambda self, pid, *rest: fails() if pid == 1 else read(self, pid, *rest))
    told: list[Exception] = []
    found = HostReader().read_processes({}, {1: ("r", 0), os.getpid(): ("r", 1)}, told.append)
    assert [process.pid for process in found if process.run_id == "r"] == [os.getpid()]
    assert len(told) == 1


def test_a_user_s_mistake_is_still_an_error() -> None:
    reads = sampler()
    reads.source.read = types.MethodType(lambda *_: (_ for _ in ()).throw(UsageError("no such GPU")), reads.source)
    with pytest.raises(UsageError):
        reads.take()


def test_gputop_doctor_continues_and_says_what_was_lost(
    quiet: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(FAULT(second).to_json() + "\n" for second in range(30)))
    observe = Evidence._observe_processes

    def now_and_then(self: Evidence, shot: Snapshot) -> None:
        if shot.sequence == 20:
            fails()
        observe(self, shot)

    monkeypatch.setattr(Evidence, "_observe_processes", now_and_then)
    assert program.main(["doctor", "--replay", str(path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert "C01" in [finding["id"] for finding in said["findings"]]
