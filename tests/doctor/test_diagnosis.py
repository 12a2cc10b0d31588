"""Time and order: when findings come and go, which stands first, and that no snapshot can break the doctor."""

from __future__ import annotations

import dataclasses
import math
import random
import types
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gputop import units
from gputop.doctor.cases import CLEAR_AFTER
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence.visible import parse_mask
from gputop.doctor.findings.finding import CONFIDENCES, SEVERITIES, Fact, findings_json
from gputop.doctor.findings.fixes import script_of
from gputop.doctor.report import text_report
from gputop.doctor.rules import RULES
from gputop.doctor.rules.data_parallel.batches import good_batch, split_rows
from gputop.snapshot import Host, Problem, Snapshot
from tests import samples
from tests.doctor.rules import test_faults as faults
from tests.doctor.scenes import dp
from tests.doctor.scenes.base import gpus, ids, journal, play, rank, scene, single, use
from tests.fuzzing import examples

# ---- coming and going


def fault(second: int) -> Snapshot:
    processes = tuple(rank(n, use(0, 15, 24), world=4, second=second) for n in range(4))
    return scene(second, gpus([0]), processes, (journal(4, second),))


def mended(second: int) -> Snapshot:
    processes = tuple(rank(n, use(n), world=4, second=second, cuda_visible_devices="0,1,2,3") for n in range(4))
    return scene(second, gpus(range(4), 4), processes, (journal(4, second),))


def test_a_finding_survives_odd_readings_and_goes_after_five_clean_ones():
    doctor = Doctor()
    assert ids(play(fault, 15, doctor)[-1]) == ["A07"]
    assert ids(play(mended, CLEAR_AFTER - 1, doctor, start=15)[-1]) == ["A07"]
    assert ids(play(fault, 1, doctor, start=19)[-1]) == ["A07"]
    assert ids(play(mended, CLEAR_AFTER - 1, doctor, start=20)[-1]) == ["A07"]
    assert play(mended, 1, doctor, start=24)[-1] == ()


def test_a_fault_that_flickers_is_never_shown():
    def flicker(second):
        return fault(second) if second % 8 else mended(second)

    assert all(findings == () for findings in play(flicker, 40))


@pytest.mark.parametrize("told_at", range(10, 16))
def test_new_facts_of_a_run_are_judged_in_the_reading_that_brings_them(told_at):
    def tells(second):
        shot = dp.one_id(second)
        silent = tuple(replace(run, ranks=tuple(replace(rank, facts={}) for rank in run.ranks)) for run in shot.runs)
        return shot if second >= told_at else replace(shot, runs=silent)

    said = play(tells, told_at + 2)
    assert "B12" not in ids(said[told_at - 1])
    assert "B12" in ids(said[told_at])


def test_a_likely_finding_waits_for_three_observations_however_long_they_take():
    def plain(second):
        process = single(4000, use(0), second=second, visible=4)
        return replace(scene(second, gpus([0], 4), (process,)), monotonic_s=1000.0 + 12 * second, interval_s=12.0)

    said = play(plain, 6)
    assert [ids(findings) for findings in said[:3]] == [[], [], []]
    assert ids(said[-1]) == ["A01"]


def test_a_jump_in_time_or_another_machine_starts_over():
    doctor = Doctor()
    assert ids(play(fault, 15, doctor)[-1]) == ["A07"]
    assert doctor.observe(fault(2)) == (), "a replay that was wound back"
    assert ids(play(fault, 15, doctor, start=3)[-1]) == ["A07"]
    assert doctor.observe(fault(3000)) == (), "a machine that slept"
    play(fault, 15, doctor, start=3001)
    other = replace(fault(3016), host=replace(fault(0).host, hostname="node8", boot_id="other"))
    assert doctor.observe(other) == ()


def test_the_same_stream_gives_the_same_findings():
    assert play(fault, 20) == play(fault, 20)


def test_a_snapshot_read_back_from_json_is_judged_the_same():
    assert play(lambda second: Snapshot.from_json(fault(second).to_json()), 15) == play(fault, 15)


def test_findings_of_two_jobs_are_listed_worst_first():
    def both(second):
        ranks = tuple(rank(n, use(0, 15), world=2, second=second, cuda_visible_devices="0,1") for n in range(2))
        ghost = replace(
            rank(1, use(3, 40), use(2, 0.4, 0), world=2, second=second),
            pid=6001, run_id=None, launcher=samples.Ancestor(5999, "torchrun"), ppid=5999,
        )  # fmt: skip
        host = replace(
            ghost, pid=6000, rank=0, devices=(use(2, 40),), environment=replace(ghost.environment, rank=0, local_rank=0)
        )
        return scene(second, gpus([0, 2, 3], 4), (*ranks, host, ghost), (journal(2, second),))

    findings = play(both, 15)[-1]
    assert ids(findings) == ["A07", "H01"]
    assert findings[0].run == "run-1"
    assert findings[1].run is None


def test_a_rule_declares_how_severe_and_how_sure_its_findings_are(monkeypatch):
    narrow = {rule.id: replace(rule, confidences=("possible",)) if rule.id == "A07" else rule for rule in RULES}
    monkeypatch.setattr("gputop.doctor.diagnosis.BY_ID", narrow)
    with pytest.raises(ValueError, match="Rule A07 reported something that it does not declare"):
        play(fault, 15)


# ---- the report


def test_report_has_evidence_sources_cause_fix_and_what_refutes():
    doctor = Doctor()
    findings = play(fault, 15, doctor)[-1]
    report = text_report(findings, doctor.abstained, fault(15))
    finding = findings[0]
    assert report.startswith(finding.title)
    for fact in finding.evidence:
        assert fact.source in report
    for line in finding.fix.splitlines():
        assert f"  {line}" in report.splitlines(), "fixes are copied: never wrapped"
    assert "Wrong if" in report
    assert max(len(line) for line in report.splitlines() if "set_device" not in line) <= 100


def test_report_of_a_healthy_machine_is_one_line_that_says_what_was_checked():
    report = text_report((), (), scene(0, gpus(range(8)), tuple(rank(n, use(n)) for n in range(8)), (journal(8, 0),)))
    assert report == "No problem found. Looked at 8 GPUs, 8 processes on them, 1 tracked run."


def test_report_without_a_gpu_says_why():
    problem = Problem("no_driver", "The NVIDIA driver is not loaded.", "Run `nvidia-smi` to see why.")
    report = text_report((), (), samples.snapshot(host=Host("laptop", problem=problem), devices=(), processes=(), runs=()))
    assert report == "The NVIDIA driver is not loaded. Run `nvidia-smi` to see why."
    assert text_report((), (), None)


# ---- parts


@pytest.mark.parametrize(
    ("mask", "entries"),
    [
        ("0,0", []), ("0,-1,1", ["0"]), ("0,a,1", ["0"]), ("2;3", ["2"]), ("0 1", ["0"]), ("", []), ("-1", []), ("all", []),
        ("none", []), ("GPU-x,1", ["GPU-x"]), ("GPU-x,GPU-x", []), ("MIG-a,MIG-b", ["MIG-a", "MIG-b"]), (" 1, 2", ["1", "2"]),
    ],
)  # fmt: skip
def test_masks_are_read_as_cuda_reads_them(mask, entries):
    assert list(parse_mask(mask)) == entries


@given(st.text("0123,- aG+;", max_size=8))
@settings(max_examples=examples(100), deadline=None)
def test_masks_are_read_as_torch_reads_them(mask):
    torch_cuda = pytest.importorskip("torch.cuda")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", mask)
        try:
            expected = tuple(map(str, torch_cuda._parse_visible_devices()))
        except ValueError:  # torch itself fails on a lone sign
            return
    assert parse_mask(mask) == expected


@pytest.mark.parametrize(
    ("batch", "devices", "rows"),
    [(5, 4, (2, 2, 1)), (6, 4, (2, 2, 2)), (9, 4, (3, 3, 3)), (9, 8, (2, 2, 2, 2, 1)), (10, 4, (3, 3, 3, 1)), (1, 2, (1,))],
)
def test_rows_per_device_are_those_of_the_catalogue(batch, devices, rows):
    assert split_rows(batch, devices) == rows


@given(st.integers(1, 4096), st.integers(1, 16))
def test_the_good_batch_gives_every_device_the_same_rows(batch, devices):
    good = good_batch(batch, devices)
    assert len(set(split_rows(good, devices))) == 1
    assert len(split_rows(good, devices)) == devices
    assert abs(good - batch) <= max(devices / 2, devices - batch)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (("/opt/venv/bin/python3.11", "-u", "-X", "dev", "train.py", "--lr", "1"), ("train.py", "--lr", "1")),
        (("python", "-m", "my.train", "--local-rank=3"), ("-m", "my.train")),
        (("python", "-c", "print()"), ("YOUR_SCRIPT.py",)),
        (None, ("YOUR_SCRIPT.py",)),
    ],
)
def test_the_script_in_a_command_line(command, script):
    assert script_of(command) == script


def test_spans_of_numbers():
    assert units.ranges([0, 1, 2, 3]) == "0-3"
    assert units.ranges([5, 0, 1]) == "0, 1, 5"


# ---- no snapshot breaks the doctor

UUIDS = st.sampled_from(["GPU-a", "GPU-b", "virtual-0", "virtual-1", "MIG-c", ""])
KNOWN = {
    "kind": st.sampled_from(["gpu", "mig", "virtual", "?"]),
    "uuid": UUIDS,
    "device_uuid": UUIDS,
    "run_id": st.sampled_from(["run-1", "run-2"]),
    "hostname": st.sampled_from(["node7", "elsewhere"]),
    "pid": st.integers(0, 6),
    "ppid": st.none() | st.integers(0, 6),
    "rank": st.integers(-1, 3),
    "state": st.sampled_from(["ok", "stale", "lost", "running", "starting", "finished"]),
    "cuda_visible_devices": st.none() | st.text("0,1-GPUab ", max_size=6),
    "virtual_devices": st.none() | st.sampled_from(["", "0", "0,1", "x"]),
    "contexts": st.sampled_from(["", "C", "G", "M", "CG"]),
    "autograd_threads": st.lists(st.tuples(st.integers(0, 3), st.floats()), max_size=3).map(tuple),
    "command": st.none()
    | st.lists(st.sampled_from(["python", "-u", "train.py", "--gpus", "2,3", "", "torchrun"]), max_size=4).map(tuple),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 70) | st.floats() | st.sampled_from(["cpu", "cuda:0", "DataParallel", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["uuid", "virtual_index", "type"]), inner, max_size=3)
    ),
    max_leaves=5,
)
DATA_PARALLEL = st.dictionaries(
    st.sampled_from(
        ["device_ids", "replicas", "batch_rows", "rows_per_device", "calls", "underused_calls", "uneven_calls", "module"]
    ),
    st.integers(0, 50) | st.lists(st.integers(0, 9), max_size=5) | JSON,
)
FACTS = st.fixed_dictionaries(
    {},
    optional={
        "devices": st.lists(st.fixed_dictionaries({"virtual_index": JSON, "uuid": UUIDS | JSON}), max_size=3) | JSON,
        "data_parallel": DATA_PARALLEL | JSON,
        "model": st.dictionaries(st.sampled_from(["parameter_device", "wrapper"]), JSON) | JSON,
        "torch": st.dictionaries(st.sampled_from(["cuda_available", "device_count"]), JSON) | JSON,
        "wrapper": JSON,
        "device_count": JSON,
    },
)
DEVICE_FIELDS = ("index", "uuid", "name", "kind", "state", "memory_used_bytes", "utilization_percent", "mig_enabled")
"""What the doctor reads of a device; the others would only cost time here."""
_strategies: dict[Any, st.SearchStrategy[Any]] = {}


def records(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type; records field by field, with None everywhere that it is allowed."""
    found = _strategies.get(kind)
    if found is None:
        found = _strategies[kind] = _records(kind)
    return found


def _records(kind: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return st.sampled_from([*arguments, "of another version"])
    if origin in (types.UnionType, typing.Union):
        return st.one_of([st.none() if part is type(None) else records(part) for part in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(records(arguments[0]), max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(records, arguments))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(
            st.sampled_from(["loss", "device"]), JSON if arguments[1] is Any else records(arguments[1]), max_size=2
        )
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = {
            item.name: KNOWN[item.name] if item.name in KNOWN else records(hints[item.name])
            for item in dataclasses.fields(kind)
        }
        if kind.__name__ == "Device":
            fields = {name: fields[name] for name in DEVICE_FIELDS}
        if kind.__name__ == "Rank":
            fields["facts"] = FACTS
        if kind.__name__ == "Snapshot":
            fields["points"] = st.just(())
            fields["monotonic_s"] = st.floats(0, 100) | st.just(math.nan)
            fields["schema_version"] = st.just(1)
        return st.builds(kind, **fields)
    return {int: st.integers(-1, 2**40), float: st.floats(), str: st.text(max_size=3), bool: st.booleans()}[kind]


@given(st.lists(records(Snapshot), min_size=1, max_size=6))
# Snapshots are too large to shrink in a test's time: what fails is told by its own exception, and by its blob.
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
def test_no_snapshot_breaks_the_doctor(snapshots):
    doctor = Doctor()
    for snapshot in snapshots:
        for _ in range(4):
            findings = doctor.observe(snapshot)
        for finding in findings:
            assert finding.severity in SEVERITIES
            assert finding.confidence in CONFIDENCES
            assert all(isinstance(fact, Fact) for fact in finding.evidence)
        findings_json(findings)
        text_report(findings, doctor.abstained, snapshot)


def with_holes(value: Any, chance: random.Random, share: float) -> Any:
    """The same record with some of what may be unknown unknown, and some lists empty."""
    if isinstance(value, tuple):
        kept = () if chance.random() < share else value
        return tuple(with_holes(item, chance, share) if dataclasses.is_dataclass(item) else item for item in kept)
    if not dataclasses.is_dataclass(value):
        return value
    changes = {}
    for item in dataclasses.fields(value):
        held = getattr(value, item.name)
        if item.default is None and chance.random() < share:
            changes[item.name] = None
        elif isinstance(held, tuple) or dataclasses.is_dataclass(held):
            changes[item.name] = with_holes(held, chance, share)
        elif isinstance(held, Mapping) and chance.random() < share:
            changes[item.name] = {}
    return replace(value, **changes)


FAULTS = [fault, faults.ghosts, faults.plain, faults.on_cpu, faults.small_batch, faults.small_batch_on_virtual_gpus]


@pytest.mark.parametrize("second_scene", FAULTS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_fault_with_missing_readings_breaks_nothing(second_scene, share):
    for seed in range(4):
        chance = random.Random(seed)
        doctor = Doctor()
        for second in range(15):
            snapshot = with_holes(second_scene(second), chance, share)
            text_report(doctor.observe(snapshot), doctor.abstained, snapshot)
