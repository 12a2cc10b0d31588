"""What a scrape says of a machine: every value under its name, nothing of what is unknown, and no more than the limits."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.diagnosis import Doctor
from gputop.export.names import METRICS
from gputop.export.samples import LABEL_MAX_CHARACTERS, RANKS_MAX, RUNS_MAX, Sample, samples_of
from gputop.snapshot import Device, Rank, Run, Snapshot
from tests import samples

LABELS = {metric.name: metric.labels for metric in METRICS}


def values(snapshot: Snapshot, metric: str) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in samples_of(snapshot, ()) if sample.metric == metric}


def assert_sound(found: list[Sample]) -> None:
    """Each sample has a metric, a value for each label, and is there once."""
    for sample in found:
        assert len(sample.labels) == len(LABELS[sample.metric]), sample
        assert all(len(label) <= LABEL_MAX_CHARACTERS for label in sample.labels)
    assert len({(sample.metric, sample.labels) for sample in found}) == len(found)


def test_a_training_machine_is_exported_with_its_runs_ranks_and_findings() -> None:
    snapshot = samples.ranks_on_one_gpu()
    doctor = Doctor()
    findings = [
        doctor.observe(replace(snapshot, sequence=n, time=snapshot.time + n, monotonic_s=snapshot.monotonic_s + n))
        for n in range(30)
    ][-1]
    assert findings
    found = samples_of(snapshot, findings)
    assert_sound(found)
    run = snapshot.runs[0]
    assert values(snapshot, "gputop_run_step") == {(run.run_id,): run.step}
    assert len(values(snapshot, "gputop_rank_step")) == len(run.ranks)
    rules = {sample.labels[0] for sample in found if sample.metric == "gputop_findings"}
    assert rules == {finding.id for finding in findings}
    processes = values(snapshot, "gputop_process_gpu_memory_bytes")
    assert {labels[1] for labels in processes} == {run.run_id}


def test_what_is_unknown_is_absent() -> None:
    snapshot = samples.snapshot(devices=(Device(index=0, uuid="GPU-1"),), processes=(), runs=(), points=())
    about_it = {sample.metric for sample in samples_of(snapshot, ()) if "GPU-1" in sample.labels}
    assert about_it == {"gputop_gpu_info", "hw_status"}


def test_old_values_are_absent() -> None:
    device = replace(samples.device(0), state="stale", age_s=30.0)
    about_it = {sample.metric for sample in samples_of(samples.snapshot(devices=(device,)), ()) if device.uuid in sample.labels}
    assert "hw_power_watts" not in about_it
    assert "hw_status" not in about_it


def test_numbers_have_their_units() -> None:
    device = samples.device(0, utilization_percent=50.0, sm_clock_mhz=1980.0, throttle_power_ns=2_500_000_000)
    snapshot = samples.snapshot(devices=(device,))
    labels = (device.uuid, "gpu", "0")
    assert values(snapshot, "hw_gpu_utilization_ratio") == {(*labels, "general"): 0.5}
    assert values(snapshot, "gputop_gpu_clock_hertz")[(*labels, "sm")] == 1.98e9
    assert values(snapshot, "gputop_gpu_throttle_seconds")[(*labels, "power_cap")] == 2.5


def test_a_scrape_has_limits_and_says_what_it_leaves_out() -> None:
    ranks = tuple(Rank(number, state="running", step=1) for number in range(40))
    runs = tuple(Run(f"run-{number}", f"name {number} " * 100, state="running", ranks=ranks) for number in range(RUNS_MAX + 7))
    ended = Run("ended", "ended", state="finished")
    snapshot = samples.snapshot(runs=(*runs, ended), processes=())
    assert_sound(samples_of(snapshot, ()))
    assert len(values(snapshot, "gputop_run_info")) == RUNS_MAX
    assert len(values(snapshot, "gputop_rank_step")) == RANKS_MAX
    left_out = values(snapshot, "gputop_left_out")
    assert (left_out[("runs",)], left_out[("ranks",)]) == (7, RUNS_MAX * 40 - RANKS_MAX)


def test_a_name_cannot_steer_the_terminal_or_break_a_scrape() -> None:
    run = Run("run-1", "evil\x1b]0;title\x07\udcff\nname", state="running")
    ((labels, _),) = values(samples.snapshot(runs=(run,), processes=()), "gputop_run_info").items()
    assert all(character.isprintable() for character in "".join(labels))
    assert "".join(labels).encode()
