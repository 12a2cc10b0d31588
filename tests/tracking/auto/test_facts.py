"""What a rank reports about itself under ``gputop run``: each fact on a script that has the fault, and on one that has not."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gputop.cli import runs as commands
from gputop.cli.output import once as once_report
from gputop.cli.stored.show import show_lines
from gputop.facts.parallel import Ddp
from gputop.selftest import trial
from gputop.snapshot import Host, Rank, Run, Snapshot
from gputop.tracking.auto.losses.user_code import UserCode
from gputop.tracking.auto.readings.batches import Called
from gputop.tracking.auto.readings.ddp import ddp_fact
from gputop.tracking.auto.readings.gpu import EVERY_S, EVERY_STEPS, PAIRS_MAX, Clock, Timetable, next_timed
from gputop.tracking.auto.readings.loader import Feed
from gputop.tracking.auto.readings.parallel import place_of
from gputop.tracking.auto.readings.waits import COPIES, WAITS, Waits
from gputop.tracking.auto.stall import Stall
from gputop.tracking.auto.training.records import Records, claim, release
from gputop.tracking.auto.training.threads import Threads
from gputop.tracking.ending import shortened
from gputop.tracking.reader.runs import RunReader
from gputop.tui.drawing import run_numbers, training
from tests import REPOSITORY
from tests.packages import imports
from tests.tracking.auto.test_auto import RUN, SCRIPTS, series
from tests.tracking.kit import DEADLINE_S, Home, home, read_all, without_checkout

pytestmark = pytest.mark.warm
if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
assert home

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def ranks_of(home: Home, kind: str, code: int) -> tuple[Rank, Rank]:
    """The ranks of a distributed script of one kind, after it has run."""
    done = home.finish((*RUN, *TORCHRUN, "ddp_kinds.py", kind), SCRIPTS)
    assert done.returncode == code, done.stderr
    assert "gputop" not in without_checkout(done.stderr).replace("gputop.tracking", "")
    first, second = home.only_run().ranks
    return first, second


def overlap(name: str, ranks: tuple[Rank, Rank]) -> list[tuple[Any, Any]]:
    """What both ranks reported for the same steps, or epochs, of a list of [step, checksum, ...]."""
    fact, _, entry = name.partition("/")
    first, second = ({row[0]: row[1] for row in rank.facts[fact][entry]} for rank in ranks)
    return [(first[step], second[step]) for step in sorted(set(first) & set(second))]


def test_ranks_that_are_given_the_same_samples_count_once(home: Home, tmp_path: Path) -> None:
    done = home.finish((sys.executable, "mesh.py", str(tmp_path)), SCRIPTS)
    assert done.returncode == 0, done.stderr
    reader = RunReader(home.runs)
    runs = {run.name: run for run in reader.poll().runs}
    reader.close()
    places = {
        name: [(rank.facts["process_group"]["data_ranks"], rank.facts["process_group"]["data_rank"]) for rank in run.ranks]
        for name, run in runs.items()
    }
    columns = [(2, 0), (2, 0), (2, 1), (2, 1)]
    every = [(4, rank) for rank in range(4)]
    unknown = [(None, None)] * 4
    assert places == {
        "fsdp_and_tp": columns,
        "unnamed_tp": [(1, 0)] * 4,
        "unnamed_fsdp": every,
        "ddp": every,
        "ddp_of_columns": columns,
        "groups_alone": unknown,
        "odd_names": unknown,
    }
    assert runs["fsdp_and_tp"].ranks[3].facts["process_group"]["mesh_sizes"] == [2, 2]
    values = {name: [rank.metrics["samples_per_s"] for rank in run.ranks] for name, run in runs.items()}
    assert {name: run_numbers.speed(run) for name, run in runs.items()} == {
        **{name: ("samples_per_s", max(some[:2]) + max(some[2:])) for name, some in values.items() if places[name] == columns},
        **{name: ("samples_per_s", sum(some)) for name, some in values.items() if places[name] == every},
        "unnamed_tp": ("samples_per_s", max(values["unnamed_tp"])),
        "groups_alone": None,
        "odd_names": None,
    }


def test_ddp_as_it_should_be(home: Home) -> None:
    ranks = ranks_of(home, "right", 0)
    for number, rank in enumerate(ranks):
        facts = rank.facts
        # The first step, in which the modules became known, is not judged: up to 17 of 18 are, those measured in full.
        gradients, calls = facts["gradients"], facts["wrapper_calls"]
        steps = gradients["steps"]
        assert 8 <= steps <= 17
        assert gradients == {
            "steps": steps,
            "backwards": 2 * steps,
            "synced_backwards": steps,
            "unsynced_steps": 0,
            "accumulation": 2,
        }
        assert 2 * steps <= calls["wrapped"] <= 34
        assert calls == {"wrapped": calls["wrapped"], "bypassed": 0, "bypassed_steps": 0, "module": None, "where": None}
        ddp = facts["ddp"]
        assert (ddp["backend"], ddp["world_size"], ddp["device_ids"]) == ("gloo", 2, [])
        assert (ddp["replaced_parameters"], ddp["parameter_device"], ddp["parameter_dtype"]) == (0, "cpu", "float32")
        assert (ddp["find_unused_parameters"], ddp["static_graph"], ddp["has_sync_bn"]) == (False, False, False)
        assert ddp["joins"] is False
        assert ddp["forward_s"] > 0
        assert ddp["communication_s"] > 0
        assert facts["process_group"]["collectives"] == {"all_reduce": 1, "barrier": 1}
        assert (facts["process_group"]["largest"], facts["model"]["largest_parameter"]) == (1, 16)
        assert facts["process_group"]["reduced"] == 1
        assert [facts["process_group"][name] for name in ("backend", "world_size", "rank", "groups")] == ["gloo", 2, number, 1]
        assert facts["model"]["batch_norm"] == {"layers": 1, "synced": 0, "frozen": 0}
        assert facts["evaluation"]["calls"] == 1
        assert (facts["evaluation"]["wrapped"], facts["evaluation"]["parameter_device"]) == (True, "cpu")
        loader = facts["loader"]
        assert (loader["length"], loader["dataset_length"], loader["iterable"]) == (12, 48, False)
        assert (loader["iterations"], loader["exhausted"], loader["batches"]) == (3, True, 12)
        assert (facts["batches"]["rows"], facts["batches"]["elements"]) == (2, 8)
        assert len({checksum for _, checksum in facts["batches"]["epochs"]}) == 3
        assert facts["sampler"]["set_epoch"] is True
        assert "error" not in facts
        assert "stalled" not in facts
    batches = overlap("batches/recent", ranks)
    assert batches
    assert all(mine != other for mine, other in batches)
    weights = overlap("parameters/recent", ranks)
    assert weights
    assert all(mine == other for mine, other in weights)


@pytest.mark.real_start("how torchrun ends the others where a rank fails")
def test_ddp_without_a_sampler_and_past_its_wrapper(home: Home) -> None:
    ranks = ranks_of(home, "no-sampler", 1)
    source = (SCRIPTS / "ddp_kinds.py").read_text().splitlines()
    lines = [f"ddp_kinds.py:{number}" for number, line in enumerate(source, 1) if "called(inputs)" in line]
    for rank in ranks:
        calls, gradients = rank.facts["wrapper_calls"], rank.facts["gradients"]
        # Of three epochs of 24 batches, two went past the wrapper: each of their 24 steps was made of local gradients.
        assert 0 < calls["bypassed_steps"] <= 24
        assert (calls["module"], [calls["where"]]) == ("Sequential", lines)
        assert 0 < gradients["unsynced_steps"] <= 24
        assert rank.facts["loader"]["length"] == 24
        assert rank.facts["sampler"]["type"] == "RandomSampler"
    # How many of the last batches both ranks fingerprinted depends on how long their steps took: facts are collected by time.
    batches = overlap("batches/recent", ranks)
    assert batches
    assert all(mine == other for mine, other in batches)
    epochs = overlap("batches/epochs", ranks)
    assert len(epochs) == 3
    assert all(mine == other for mine, other in epochs)
    assert "error" not in ranks[0].facts
    error = ranks[1].facts["error"]
    (line,) = [number for number, text in enumerate(source, 1) if "raise ValueError" in text]
    assert error == {"type": "ValueError", "message": "a mistake of rank 1", "where": f"ddp_kinds.py:{line}"}
    assert ranks[1].state == "failed"


def test_ddp_with_no_sync_inverted_no_set_epoch_and_changed_parameters(home: Home) -> None:
    ranks = ranks_of(home, "inverted", 0)
    for rank in ranks:
        gradients = rank.facts["gradients"]
        # Each second backward is the one whose gradients are kept local. The last two of 20 steps had no forward; one of
        # them was the first of a new optimizer, which is not judged. Of the others, those measured in full count.
        steps, unsynced = gradients["steps"], gradients["unsynced_steps"]
        assert 8 <= steps <= 19
        assert steps - 1 <= unsynced <= steps
        assert steps - 2 <= gradients["synced_backwards"] <= steps
        assert rank.facts["sampler"]["set_epoch"] is False
        assert len({checksum for _, checksum in rank.facts["batches"]["epochs"]}) == 1
        ddp = rank.facts["ddp"]
        # Two of the new layer, and two of another dtype; the batch norm's are as they were.
        assert (ddp["replaced_parameters"], ddp["parameter_dtype"]) == (4, "float32")
        assert rank.facts["model"]["parameter_dtypes"] == {"float64": 20, "float32": 13}
    weights = overlap("parameters/recent", ranks)
    assert any(mine != other for mine, other in weights)


def test_a_training_that_stands_still_says_where(home: Home, tmp_path: Path) -> None:
    go = tmp_path / "go"
    process = home.open([*RUN, sys.executable, "stalls.py", str(go)], SCRIPTS, GPUTOP_STALL_S="0.4", OMP_NUM_THREADS="1")

    def told(stalled: bool) -> dict[str, Any]:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            reader = RunReader(home.runs)
            begun = reader.poll().runs  # at first a journal has a name and nothing in it
            reader.close()
            if begun:
                facts = dict(home.only_run().ranks[0].facts)
                if bool(facts.get("stalled")) is stalled and (stalled or "stalled" in facts):
                    return facts
            time.sleep(0.05)
        raise AssertionError("nothing was told")

    before = time.time()
    end = time.monotonic() + DEADLINE_S
    while (facts := told(True))["stalled"]["step"] != 7:  # on a busy machine the first step can take longer than the limit
        assert time.monotonic() < end
    found = facts["stalled"]
    assert found["phase"] == "data"
    line = found["stack"][0]
    assert line.startswith("stalls.py:")
    assert line.endswith(" __getitem__")
    assert found["stack"][-1].endswith(" <module>")
    own = {path.name for path in (REPOSITORY / "gputop" / "tracking").rglob("*.py")}
    assert not own & {frame.partition(":")[0] for frame in found["stack"]}
    assert before - DEADLINE_S < found["since"] < found["at"] - 0.4
    assert facts["loader"]["batches"] == 8, "what is counted is told too"
    go.touch()
    assert process.stdout is not None
    assert process.stdout.readline() == "over\n"
    # The loop is over but the script is not: it waits for input.
    end = time.monotonic() + DEADLINE_S
    while told(True)["stalled"]["step"] != 15:
        assert time.monotonic() < end
    found = told(True)["stalled"]
    assert (found["phase"], found["stack"][0].endswith(" <module>")) == ("other", True)
    _, error = process.communicate("\n", timeout=DEADLINE_S)
    assert process.returncode == 0, error
    assert "multi-threaded" not in error, "the fork was alone"
    facts = told(False)
    assert facts["loader"]["exhausted"] is True


@pytest.mark.real_start("the environment that it was started with, from /proc")
def test_settings_environment_layers_and_garbage(home: Home) -> None:
    done = home.finish(
        (*RUN, sys.executable, "settings.py"), SCRIPTS, CUDA_VISIBLE_DEVICES="3,1", CUDA_DEVICE_ORDER="PCI_BUS_ID"
    )
    assert done.returncode == 0, done.stderr
    facts = home.only_run().ranks[0].facts
    assert facts["settings"] == {
        "float32_matmul_precision": "high",
        "allow_tf32": True,
        "anomaly_detection": True,
        "deterministic": False,
        "cudnn_benchmark": True,
        "autocast": True,
        "threads": 1,
        "profiler": False,
        "tracer": None,
        "call_profiler": None,
        "seed": 0,
    }
    assert facts["environment"] == {
        "cuda_visible_devices_launch": "3,1",
        "cuda_visible_devices_now": "",
        "virtual_devices_now": None,
        "device_order": "PCI_BUS_ID",
        "visible_uuids": None,
        "omp_num_threads": "1",
    }
    assert facts["frameworks"] == []
    model = facts["model"]
    assert (model["recurrent"], model["batch_norm"]) == (True, {"layers": 2, "synced": 0, "frozen": 1})
    assert model["parameter_dtypes"] == {"float32": 2 * 4 * 4 * 4 + 2 * 4 * 4 + 2 * 8, "bfloat16": 5}
    assert (model["hf_device_map"], model["mesh"]) == (None, [])
    assert facts["gradients"]["synced_backwards"] is None
    garbage = series(home)["gc_s"]
    assert garbage[7] == max(garbage.values()) >= 1e-3


ODD_MODEL = """
import torch

class Odd(dict):
    def values(self):
        raise RuntimeError("not in this version")

model = torch.nn.Linear(4, 1)
model.hf_device_map = Odd()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    STEP
"""


def test_a_fact_that_cannot_be_collected_is_reported_once_and_the_rest_continues(home: Home) -> None:
    assert home.run(ODD_MODEL.replace("STEP", ""), command=(*RUN, sys.executable)) == (0, "", "")
    run = home.only_run()
    told = ["model: RuntimeError: not in this version"]
    assert run.ranks[0].facts["uncollected"] == told
    assert {"gradients", "settings", "parameters"} <= set(run.ranks[0].facts)
    assert list(series(home)["loss"]) == list(range(40))
    events = [value for archive in home.archives() for _, _, value in read_all(archive).events if isinstance(value, dict)]
    assert [event["value"] for event in events if event.get("name") == "uncollected"] == [told]
    assert f"  could not be collected: {told[0]}" in show_lines(run, {})
    judged = trial._missing(run.ranks, ("cuda_memory",))
    assert judged == ["missing: cuda_memory", "model failed (RuntimeError)"], "a text may name the machine"


def test_a_tracking_that_stops_says_so_in_its_journal_too(home: Home) -> None:
    script = ODD_MODEL.replace("STEP", "if step == 2: optimizer.param_groups = []")
    code, _, err = home.run(script, command=(*RUN, sys.executable))
    stops = "automatic tracking stops, the training continues (IndexError: list index out of range)."
    assert (code, err) == (0, f"gputop: {stops}\n")
    events = [value for archive in home.archives() for _, _, value in read_all(archive).events if isinstance(value, dict)]
    assert [event["message"] for event in events if event.get("level") == "warning"] == [stops]


@pytest.fixture
def waits() -> Any:
    # Another dtype replaces the device: what is counted depends on where tensors are, how it is counted does not.
    found = Waits(torch, UserCode().frame, lambda tensor: tensor.dtype == torch.float64)
    yield found
    found.close(counts=False)


def test_waits_and_copies_are_counted_in_a_measured_step(waits: Waits) -> None:
    host, there = torch.ones(3), torch.ones((), dtype=torch.float64)
    assert waits.synchronizations() is None
    waits.open(lambda: False)
    assert host.to(torch.float64).sum() == 3
    for _ in range(3):
        assert there.item() == 1.0
    assert bool(there)
    assert (host[0].item(), host.tolist()) == (1.0, [1.0] * 3)
    there.to(torch.float32)
    waits.close(counts=True)
    assert there.item() == 1.0
    # `bool`, three times `item`, `==` asked with `bool` of a result on the host, and the copy back.
    found = waits.synchronizations()
    assert found is not None
    assert (found["per_step"], found["steps"]) == (5.0, 1)
    assert found["where"].startswith("test_facts.py:")
    assert 0 < found["seconds_per_step"] < 60
    copied = waits.transfers()
    assert copied is not None
    assert (copied["per_step"], copied["bytes_per_step"], copied["pageable_per_step"], copied["blocking_per_step"]) == (
        1,
        12,
        1,
        1,
    )


def test_the_time_in_calls_that_wait_is_counted(waits: Waits) -> None:
    there = torch.ones((), dtype=torch.float64)
    waits.open(lambda: False)
    there.item()
    waits.close(counts=True)
    found = waits.synchronizations()
    assert found is not None
    assert found["seconds_per_step"] > 0


def test_a_wait_that_cannot_be_measured_ends_the_counting_and_says_why() -> None:
    told: list[Exception] = []
    waits = Waits(torch, UserCode().frame, lambda tensor: tensor.no_such_attribute, told.append)
    waits.open(lambda: False)
    assert [torch.ones(()).item(), torch.ones(()).item()] == [1.0, 1.0]
    waits.close(counts=True)
    assert ["no_such_attribute" in str(error) for error in told] == [True]


def test_no_wrapper_is_left_on_tensors(waits: Waits) -> None:
    before = dict(vars(torch.Tensor))
    waits.open(lambda: False)
    assert all(name in vars(torch.Tensor) for name in (*WAITS, *COPIES))
    waits.close(counts=True)
    assert dict(vars(torch.Tensor)) == before
    torch.Tensor.item = lambda tensor: 7.0  # another tool's
    try:
        waits.open(lambda: False)
        assert torch.ones(()).item() == 7.0
        waits.close(counts=True)
        assert torch.ones(()).item() == 7.0
    finally:
        del torch.Tensor.item


class Passed:
    """An event that completes on request."""

    now = 0.0
    ready = False

    def record(self) -> None:
        Passed.now += 1.0
        self.at = Passed.now

    def query(self) -> bool:
        return Passed.ready

    def elapsed_time(self, other: Passed) -> float:
        return (other.at - self.at) * 1000


def test_the_clock_waits_for_nothing_and_adds_up() -> None:
    Passed.now, Passed.ready = 0.0, False
    clock = Clock(Passed, lambda: False)
    clock.begin()
    for _ in range(2):
        clock.stop("cuda/forward_s", clock.start())
    clock.stop("cuda/backward_s", clock.start())
    clock.end()
    assert not clock.running
    assert clock.arrived() == {}
    clock.begin()
    assert not clock.running, "the times of the last step are still on their way"
    Passed.ready = True
    assert clock.arrived() == {"cuda/forward_s": 2.0, "cuda/backward_s": 1.0, "cuda/step_s": 7.0}
    assert clock.arrived() == {}
    clock.begin()
    for _ in range(PAIRS_MAX + 5):
        started = clock.start()
        if started is not None:
            clock.stop("cuda/forward_s", started)
    clock.end()
    assert set(clock.arrived()) == {"cuda/forward_s", "cuda/step_s"}


def test_short_steps_are_timed_more_rarely_and_by_all_ranks_at_once() -> None:
    assert next_timed(104, EVERY_S) == 110
    assert next_timed(104, 0.02) == 120
    for fast, slow in ((0.0009, 0.0016), (0.019, 0.026)):
        often, rarely = ([step for step in range(20_000) if next_timed(step - 1, each) == step] for each in (slow, fast))
        assert set(rarely) < set(often), "a rank that differs by little times some of the same steps"
        assert EVERY_S <= fast * (rarely[2] - rarely[1]) < 2 * EVERY_S
    assert next_timed(0, 0.0) > 1


def test_a_host_that_queues_steps_and_then_waits_for_the_gpu_has_them_timed_as_often() -> None:
    """Seen on an H200: 100 steps are queued in 0.1 s, and then the host waits until the GPU has done them."""
    table, step, timed = Timetable(), 1, []
    while step < 3000:  # 42 s, as the GPU takes 14 ms a step
        timed.append(step)
        step = table.after(step, now=step // 100 * 1.4 + step % 100 * 0.001)
    assert timed[:2] == [1, EVERY_STEPS], "at first as if nothing were known"
    assert 40 <= len(timed) <= 170, "about two a second"
    assert max(later - before for before, later in itertools.pairwise(timed)) <= 160


def test_the_clock_stands_still_while_a_graph_is_captured_and_after_an_error() -> None:
    clock = Clock(Passed, lambda: True)
    clock.begin()
    assert (clock.running, clock.start()) == (False, None)

    def broken() -> bool:
        raise RuntimeError("no context")

    told: list[Exception] = []
    clock = Clock(Passed, broken, told.append)
    clock.begin()
    clock.end()
    assert [str(error) for error in told] == ["no context"]
    assert (clock.running, clock.arrived()) == (False, {})


def test_of_a_long_error_the_beginning_of_each_line_is_kept() -> None:
    """The message of load_state_dict: two lists of names, both informative, and the first may be long."""
    names = ", ".join(f'"module.layer{number}.weight"' for number in range(99))
    told = shortened(f"Error(s) in loading state_dict for Net:\n\tMissing key(s): {names}. \n\tUnexpected key(s): {names}. ")
    assert [line.strip().split(" ")[0] for line in told.splitlines()] == ["Error(s)", "Missing", "Unexpected"]
    assert len(told) <= 500
    assert shortened("x" * 900) == "x" * 500
    assert shortened("short\nlines") == "short\nlines"


def test_the_last_line_of_an_exception_in_a_worker_stays() -> None:
    frames = "".join(
        f'  File "/lib/python3.11/site-packages/torch/utils/{at}.py", line {at}, in fetch\n    fetch(at)\n' for at in range(9)
    )
    last = "RuntimeError: Trying to resize storage that is not resizable"
    told = shortened(
        f"Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n{frames}{last}"
    )
    assert len(told) <= 500
    assert told.startswith("Caught RuntimeError in DataLoader worker process 0.\n")
    assert told.endswith(f"\n{last}")


def test_what_an_adapter_claims_is_left_to_it(home: Home) -> None:
    import gputop

    run = gputop.init(name="claimed")
    records = Records(run, own=True)
    try:
        claim("loss", "step_s")
        records.write({"loss": 1.0, "step_s": 0.1, "lr": 0.5}, 0)
        records.write({"loss/generator": 1.0}, 1)
        release()
        records.write({"loss": 2.0}, 2)
    finally:
        release()
    run.finish()
    assert series(home) == {"lr": {0: 0.5}, "loss": {2: 2.0}}


def test_the_list_of_runs_shows_one_of_several_losses_by_its_name(home: Home) -> None:
    import gputop

    for name, values in (
        ("gan", {"loss/g": 0.25, "loss/d": 0.5}),
        ("one", {"loss": 2.0, "loss/x": 1.0}),
        ("wandb", {"train/loss": 3.25, "train/acc": 1.0}),
        ("validated", {"val_loss": 4.25}),
        ("none", {"lr": 1.0}),
    ):
        run = gputop.init(name=name)
        run.log(values, step=0)
        run.finish()
    from gputop.tracking.reader.runs import RunReader

    reader = RunReader(home.runs)
    found = reader.poll().runs
    lines = {line.split()[1]: line for line in commands.list_text(found).splitlines()[1:]}
    reader.close()
    assert "  0.5000 (d)  " in lines["gan"] or "  0.5 (d)  " in lines["gan"]
    assert "(" not in lines["one"]
    assert "  3.25  " in lines["wandb"]
    assert "  4.25 (val_loss)  " in lines["validated"]
    assert " N/A " in lines["none"]
    shown = {run.name: (training.loss_name(sorted(run.ranks[0].metrics)), run_numbers.loss_name(run)) for run in found}
    assert shown["gan"] == ("loss/d", "loss/d")
    assert shown["wandb"] == ("train/loss", "train/loss")
    assert shown["none"] == ("lr", None)
    alive = tuple(replace(run, state="running") for run in found)
    once = once_report.once_text(Snapshot(1, 0.0, 0.0, 1.0, Host("node7"), runs=alive)).splitlines()
    assert any(line.startswith("wandb") and line.endswith("3.25") for line in once)


def mesh_of(at: tuple[int, ...], **sizes: int) -> Any:
    return SimpleNamespace(
        mesh_dim_names=tuple(sizes), ndim=len(sizes), shape=tuple(sizes.values()), get_coordinate=lambda: list(at)
    )


ALL = {rank: rank for rank in range(8)}


def group_of(*meshes: Any, model: Any = None, groups: Mapping[Any, Any] | None = None) -> tuple[int | None, int | None]:
    """Return (data_rank, data_ranks) of rank 5 of 8 with these meshes, without starting eight processes."""
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_world_size=lambda: 8,
        get_rank=lambda: 5,
        distributed_c10d=SimpleNamespace(_world=SimpleNamespace(pg_group_ranks={None: ALL} if groups is None else groups)),
    )
    place = place_of(SimpleNamespace(distributed=distributed), meshes, model)
    return place.data_rank, place.data_ranks


def test_of_several_meshes_the_one_with_the_fewest_groups_of_samples_tells() -> None:
    # As torchtitan has them: "fsdp" spans "cp", too.
    loading = mesh_of((0, 2, 1, 0), pp=1, batch=4, cp=2, tp=1)
    sharding = mesh_of((0, 0, 5, 0), pp=1, dp_replicate=1, fsdp=8, tp=1)
    assert group_of(loading) == (2, 4)
    assert group_of(sharding) == (5, 8)
    assert group_of(loading, sharding) == group_of(sharding, loading) == (2, 4)
    other = mesh_of((1, 1), cp=2, dp=4)
    assert group_of(loading, other) == group_of(other, loading) == (None, None), "one of the two numbers is wrong"
    assert group_of(loading, mesh_of((1, 1), odd=2, dp=4), mesh_of((1,), dp=2)) == (2, 4)


def test_a_mesh_whose_groups_were_destroyed_shows_nothing() -> None:
    """torch keeps meshes, and gives the groups of a later training the same names."""
    before, now = object(), object()
    groups = {now: ALL}
    gone = SimpleNamespace(**vars(mesh_of((1, 2), pp=2, dp=4)), _pg_registry={"1": before}, _root_mesh=None)
    part_of_it = SimpleNamespace(**vars(mesh_of((2,), dp=4)), _pg_registry={}, _root_mesh=gone)
    stays = SimpleNamespace(**vars(mesh_of((5,), dp=8)), _pg_registry={"1": now}, _root_mesh=None)
    assert group_of(gone, part_of_it, groups=groups) == (5, 8)
    assert group_of(gone, stays, groups=groups) == (5, 8)
    assert group_of(gone, groups={before: ALL}) == (2, 4)


def test_a_pipeline_of_deepspeed_over_all_ranks_is_given_one_set_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed.pipelining", raising=False)
    engine, pipeline = torch.nn.Module(), type("PipelineModule", (torch.nn.Module,), {})()
    engine.module = pipeline
    assert group_of(model=engine) == (None, None), "a version that does not say"
    for rank, ranks in ((0, 1), (1, 2)):
        pipeline._grid = SimpleNamespace(
            get_data_parallel_rank=lambda rank=rank: rank, get_data_parallel_world_size=lambda ranks=ranks: ranks
        )
        assert group_of(model=engine) == (rank, ranks)


def test_a_pipeline_over_all_ranks_is_not_taken_for_data_parallelism(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelining = "torch.distributed.pipelining"
    monkeypatch.delitem(sys.modules, pipelining, raising=False)
    assert group_of() == (5, 8)
    monkeypatch.setitem(sys.modules, pipelining, SimpleNamespace())
    assert group_of() == (None, None)
    assert group_of(mesh_of((1, 2), pp=2, dp=4)) == (2, 4)


def test_ranks_that_may_share_samples_have_no_throughput() -> None:
    def speed(**said: Any) -> Any:
        fact = {"backend": "gloo", "world_size": 2, "groups": 1, "mesh": [], **said}
        ranks = [Rank(number, metrics={"samples_per_s": 4.0}, facts={"process_group": fact}) for number in range(2)]
        return run_numbers.speed(Run("r", "r", ranks=tuple(ranks)))

    assert speed() == ("samples_per_s", 8.0), "an earlier version, or a training without an optimizer: nobody looked"
    assert speed(data_rank=0, data_ranks=1) == ("samples_per_s", 4.0)
    assert speed(data_rank=None, data_ranks=None) is None


def test_names_of_a_device_mesh() -> None:
    from types import SimpleNamespace

    from gputop.tracking.describe import mesh_names

    assert mesh_names(None) == []
    assert mesh_names(SimpleNamespace(mesh_dim_names=("dp", "tp"), ndim=2)) == ["dp", "tp"]
    assert mesh_names(SimpleNamespace(mesh_dim_names=None, ndim=2)) == ["", ""]
    assert mesh_names(SimpleNamespace(mesh_dim_names=None, ndim=1)) == []


def test_weights_in_pieces_are_not_probed_and_half_precision_is_summed() -> None:
    from gputop.tracking.auto.readings.batches import Probe

    assert Probe(torch, []).fact() is None
    parameters = [torch.nn.Parameter(torch.full((40,), value, dtype=getattr(torch, dtype))) for value, dtype in HALVES]
    probe = Probe(torch, parameters)
    probe.take(10)
    parameters[0].data[0] = 1.0
    probe.take(20)
    found = probe.fact()
    assert found is not None
    (first, one, total), (second, other, changed) = found["recent"]
    assert (first, second) == (10, 20)
    assert one != other
    assert total == 32 * sum(value for value, _ in HALVES)
    assert changed == total + 1.0 - HALVES[0][0]
    assert found["changed"] == [[20, round(1 / 128, 4)]]
    assert found["dtype"] is None, "they differ"


def test_what_part_of_the_weights_a_step_changes_is_known() -> None:
    """In bfloat16, a step of a thousandth is lost on a weight of 1, and not on one of 0.01."""
    from gputop.tracking.auto.readings.batches import Probe

    large, small = (torch.nn.Parameter(torch.full((40,), value, dtype=torch.bfloat16)) for value in (1.0, 0.01))
    probe = Probe(torch, [large, small])
    for step in (10, 20, 30):
        probe.take(step)
        with torch.no_grad():
            large += 0.001
            small += 0.001
    found = probe.fact()
    assert found is not None
    assert (found["changed"], found["dtype"]) == ([[20, 0.5], [30, 0.5]], "bfloat16")


FREED = """
import torch
from gputop.tracking.auto.readings.batches import Batches, Probe
part = torch.nn.Parameter(torch.ones(100)[50:])
probe, batches = Probe(torch, [part, torch.nn.Parameter(torch.ones(4))]), Batches()
probe.take(10)
part.untyped_storage().resize_(0)
probe.take(20)
batches.begin(0)
batches.take(part.detach(), 20, 0)
print(len(probe.fact()["recent"]), batches.fact())
"""


def test_memory_that_sharding_or_offloading_freed_is_not_read(home: Home) -> None:
    """A tensor that begins within freed memory has the address of its offset: to read there ends the process."""
    code, out, err = home.run(FREED)
    assert (code, out, err) == (0, "1 None\n", "")


def test_freed_memory_of_a_gpu_is_not_read_either(monkeypatch: pytest.MonkeyPatch) -> None:
    from gputop.tracking.auto.readings.batches import Probe

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    class Parameter:
        """A weight on a GPU."""

        is_cpu, is_cuda, requires_grad, dtype = False, True, True, torch.float32
        freed, read = False, 0

        def numel(self) -> int:
            return 50

        def element_size(self) -> int:
            return 4

        def storage_offset(self) -> int:
            return 50

        def untyped_storage(self) -> Any:
            return SimpleNamespace(nbytes=lambda: 0 if self.freed else 400)

        def detach(self) -> Any:
            self.read += 1
            return torch.ones(50)

    weight = Parameter()
    probe = Probe(torch, [weight])
    for weight.freed in (False, True):
        probe.take(10)
    assert weight.read == 1


HALVES = ((0.5, "bfloat16"), (0.25, "float16"), (2.0, "float32"), (4.0, "float64"))


class _Told:
    """A run that keeps what it records."""

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def fact(self, name: str, value: dict[str, Any]) -> None:
        assert name == "stalled"
        self.said.append(value)


def _standing(monkeypatch: pytest.MonkeyPatch, step: int, longest_s: float) -> list[dict[str, Any]]:
    """What is reported of a training that hangs after ``step``, up to the first full word."""
    monkeypatch.setenv("GPUTOP_STALL_S", "3")  # between a third of it and this, a thread gets its turn also on a busy machine
    told = _Told()
    steps = SimpleNamespace(
        recent_s=[0.002, longest_s], run=told, journal=None, thread=0, stepping=False, reached=step, marked=time.perf_counter(),
        threads=Threads(),
    )  # fmt: skip
    stall = Stall(steps, lambda: False, lambda: None, lambda: None)  # type: ignore[arg-type]
    stall.start()
    try:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end and not any("early" not in found for found in told.said):
            time.sleep(0.02)
    finally:
        stall.stop()
    return told.said


def test_a_first_report_comes_before_a_stall_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _standing(monkeypatch, 30, 0.004)
    assert (first["early"], first["step"], first["phase"]) == (True, 30, "other")
    assert "early" not in second
    assert second["at"] > first["at"]


@pytest.mark.parametrize(("step", "longest_s"), [(5, 0.004), (30, 0.2)], ids=["in the warm-up", "after a step of that length"])
def test_no_first_report_if_a_step_took_as_long_before(monkeypatch: pytest.MonkeyPatch, step: int, longest_s: float) -> None:
    (only,) = _standing(monkeypatch, step, longest_s)
    assert "early" not in only


def test_what_ddp_was_called_with_is_added_up_by_step() -> None:
    called = Called()
    for step in range(40):
        called.take(("mask", torch.zeros(step + 1, 3), torch.zeros(9)), step)
        called.take((), step)
    called.take([[torch.zeros(2, 2), torch.zeros(3, 5)]], 39)
    fact = called.fact()
    assert fact is not None
    assert len(fact) == 32
    assert fact[0] == [8, 9, 27]
    assert fact[-1] == [39, 40 + 2, 120 + 4 + 15]


def test_a_loader_made_for_each_epoch_counts_on_where_the_last_one_ended() -> None:
    def made(dataset: Any, before: Feed | None) -> Feed:
        feed = Feed()
        feed.begin(torch.utils.data.DataLoader(dataset), 0.0, before)
        feed.take()
        return feed

    dataset, other = (torch.utils.data.TensorDataset(torch.zeros(4)) for _ in range(2))
    first = made(dataset, None)
    first.begin(torch.utils.data.DataLoader(dataset), 0.0)
    first.take()
    assert (first.epoch, made(dataset, first).epoch) == (1, 0), "two loaders at the same time"
    first.ended()
    third = made(dataset, first)
    assert (third.epoch, third.earlier, made(other, first).epoch) == (2, 2, 0)
    third.ended()
    assert made(dataset, third).epoch == 3
    assert made([1, 2], made([1, 2], None)).epoch == 0


def test_a_pass_without_training_is_not_an_epoch() -> None:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4)))
    feed = Feed()
    feed.begin(loader, 0.0)  # a look at the first batch
    for epoch in range(3):
        feed.begin(loader, 0.0)
        assert feed.epoch == epoch
        feed.take() if epoch != 1 else feed.hand_out(2)  # what the full path and the fast path report of a backward
        feed.ended()
        feed.begin(loader, 0.0)  # the accuracy on the training set
        feed.ended()
    after = Feed()
    after.begin(loader, 0.0, feed)
    assert after.epoch == 3


def test_class_columns_next_to_numbers_are_not_tokens() -> None:
    def counted(*batch: torch.Tensor) -> tuple[int, int]:
        feed = Feed()
        feed.begin(torch.utils.data.DataLoader([1, 2]), 0.0)
        feed.fetched(batch, 0, 99)
        return feed.take()

    ids, numbers = torch.zeros(1, 9, dtype=torch.int64), torch.zeros(1, 3)
    assert counted(ids, numbers, ids[:, 0]) == (1, 0)
    assert counted(ids, ids, ids) == (1, 9)
    assert counted(ids, numbers) == (1, 9), "a text with several numbers to predict"


def test_an_input_without_a_plain_shape_ends_only_the_measuring() -> None:
    class Nested:
        grad_fn = None

        @property
        def shape(self) -> None:
            raise RuntimeError("no plain shape")

    called = Called()
    called.take((Nested(),), 1)
    called.take((torch.zeros(4, 2),), 2)
    assert called.fact() is None


def test_facts_number_steps_as_automatic_values_do(home: Home) -> None:
    code, out, err = home.run(
        """
import json, torch, gputop
from torch import distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
run = gputop.init(name="own")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
gputop.watch(model, optimizer)
rows = {}
for step in range(1, 13):  # the script counts from 1 on
    rows[step - 1] = 3 + step
    loss = model(torch.ones(3 + step, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.log(loss=loss.item(), step=step)
dist.destroy_process_group()
print(json.dumps(rows))
"""
    )
    assert code == 0, err
    rows = {int(step): number for step, number in json.loads(out).items()}
    facts = home.only_run().ranks[0].facts
    called = {step: number for step, number, _ in facts["batches"]["called"]}
    assert called
    assert called.items() <= rows.items()
    assert {step for step, *_ in facts["parameters"]["recent"]} <= set(rows)
    assert set(called) <= set(series(home)["phase/forward"]), "so that they meet their times"


def test_ddp_within_join_says_so() -> None:
    class Joined:
        _join_config = SimpleNamespace(enable=True)
        _get_ddp_logging_data = dict

    module = Joined()
    assert Ddp(ddp_fact(module)).joins is True
    del Joined._join_config
    assert Ddp(ddp_fact(module)).joins is None
