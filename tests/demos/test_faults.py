"""Each fault shows its mistake, by what can be seen of the run itself: weights, batches, exit codes, texts, its journal."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demos.runs import DEMOS, Ran, run_demo
from tests.packages import needs

pytestmark = needs("torch")

FEW = {"digits": "easy", "train_samples": 480, "batch_size": 16, "steps": 18}
"""15 steps an epoch on two ranks: so one whole epoch, and a part of the next."""


@pytest.fixture(scope="module")
def healthy() -> Ran:
    """The DDP recipe that the faults differ from."""
    ran = run_demo("ddp", **FEW)
    assert ran.codes == [0, 0], ran.text
    return ran


def ended_well(fault: str, ranks: int = 2, **changes: object) -> Ran:
    """Run a fault that nothing complains about."""
    ran = run_demo(f"faults/{fault}", ranks=ranks, **{**FEW, **changes})
    assert ran.codes == [0] * max(1, ranks), ran.text
    return ran


def devices(ran: Ran, rank: int = 0) -> list[int]:
    return [claim["virtual_index"] for claim in ran.fact("devices", rank) or ()]


def test_the_healthy_run_shows_none_of_it(healthy: Ran) -> None:
    assert len(set(healthy.weights())) == 1  # all ranks hold the same model
    first, second = healthy.beginnings()
    assert len({*first, *second}) == 4  # no two ranks and no two epochs begin alike
    assert [devices(healthy, rank) for rank in (0, 1)] == [[0], [1]]
    assert healthy.fact("wrapper_calls")["bypassed"] == 0


# ---- launching and visibility


def test_plain_python_trains_alone() -> None:
    ran = ended_well("launching/plain_python", ranks=0)
    assert "rank 0 of 1" in ran.text
    assert ran.run is not None
    assert ran.run.world_size == 1
    assert ran.fact("model")["wrapper"] is None


def test_fewer_ranks_leave_a_gpu_idle() -> None:
    ran = ended_well("launching/fewer_ranks", ranks=1)
    assert ran.fact("model")["wrapper"] == "DistributedDataParallel"
    assert devices(ran) == [0]


def test_a_mask_in_the_script_leaves_one_device() -> None:
    assert "training on 1 devices" in ended_well("launching/mask_in_script", ranks=0).text


def test_a_mask_with_a_repeat_hides_everything() -> None:
    repeated = {"GPUTOP_VIRTUAL_DEVICES": "0,0", "CUDA_VISIBLE_DEVICES": "0,0"}
    ran = run_demo("faults/launching/mask_with_a_repeat", ranks=0, env=repeated, **FEW)
    assert ran.codes == [0], ran.text
    assert "CUDA_VISIBLE_DEVICES=0,0: 0 devices" in ran.text
    assert "training on cpu" in ran.text
    assert devices(ran) == []


def test_ranks_on_one_gpu_claim_the_same() -> None:
    ran = ended_well("launching/ranks_on_one_gpu")
    assert [devices(ran, rank) for rank in (0, 1)] == [[0], [0]]


def test_a_fallback_to_the_cpu_claims_no_gpu() -> None:
    ran = ended_well("launching/cpu_fallback")
    assert [devices(ran, rank) for rank in (0, 1)] == [[], []]
    assert ran.fact("model")["parameter_device"] == "cpu"


def test_the_old_launcher_passes_an_argument_that_the_script_does_not_know() -> None:
    command = ["-m", "torch.distributed.launch", "--nproc-per-node=1", str(DEMOS / "faults/launching/local_rank_argument.py")]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode != 0
    assert "unrecognized arguments: --local-rank=0" in ran.stderr


def test_worlds_of_one_train_the_same_thing_on_one_gpu() -> None:
    ran = ended_well("launching/independent_worlds", ranks=0)
    assert ran.text.count("rank 0 of 1 trains on virtual GPU 0") == 2
    assert len(set(re.findall(r"ends with weights (\w+)", ran.text))) == 1
    assert len(re.findall(r"ends with weights (\w+)", ran.text)) == 2


def test_data_parallel_in_every_rank_drives_all_gpus_from_each() -> None:
    ran = ended_well("launching/dp_inside_ddp")
    assert [devices(ran, rank) for rank in (0, 1)] == [[0, 1], [0, 1]]
    assert len(set(ran.weights())) == 2


# ---- nn.DataParallel


@pytest.mark.parametrize(
    ("fault", "changes", "rows"),
    [
        ("dp_small_batch", {"batch_size": 1, "lr": 0.001}, [1, 0]),
        ("dp_remainder", {"batch_size": 5}, [3, 2]),
        ("dp_mask", {}, [8, 0]),
    ],
)
def test_a_batch_is_cut_badly(fault: str, changes: dict[str, object], rows: list[int]) -> None:
    split = ended_well(f"data_parallel/{fault}", ranks=0, steps=21, **changes).fact("data_parallel")  # written every 20 calls
    assert split["rows_per_device"] == rows
    assert max(split["underused_calls"], split["uneven_calls"]) == split["calls"] >= 20


def test_a_bypassed_wrapper_is_never_called() -> None:
    ran = ended_well("data_parallel/dp_bypass", ranks=0)
    calls = ran.fact("wrapper_calls")
    assert calls["wrapped"] == 0
    assert calls["bypassed"] > 10
    assert calls["module"] == "LeNet"
    assert calls["where"].startswith("dp_bypass.py:")
    assert all(claim["memory_bytes"] == 0 for claim in ran.fact("devices"))


def test_an_object_goes_whole_to_every_gpu() -> None:
    ran = ended_well("data_parallel/dp_object", ranks=0)
    held = [claim["memory_bytes"] for claim in ran.fact("devices")]
    assert held[0] == held[1] == 2 * 61_706 * 4  # weights and gradients, and no piece of a batch
    assert ran.fact("model")["class"] == "WithLoss"


def test_a_batch_in_dimension_1_is_cut_along_time() -> None:
    ran = ended_well("data_parallel/dp_time_first", ranks=0)
    assert ran.fact("data_parallel")["rows_per_device"] == [14, 13]  # of 27 rows of an image; the batch is 16
    loss = ran.series("loss")
    assert loss[-1] < loss[0]


def test_device_ids_with_one_entry_use_one_gpu() -> None:
    ran = ended_well("data_parallel/dp_single_id", ranks=0)
    assert ran.fact("data_parallel")["device_ids"] == ["0"]
    assert devices(ran) == [0]


def test_a_test_past_the_wrapper_uses_one_gpu() -> None:
    ran = ended_well("data_parallel/eval_on_one_gpu", ranks=0)
    evaluation = ran.fact("evaluation")
    assert evaluation["wrapped"] is False
    assert evaluation["calls"] >= 8 * 100 // 16


# ---- DDP and its data


@pytest.mark.parametrize("fault", ["ddp_bypass", "changed_after_wrap", "not_wrapped", "no_sync_inverted"])
def test_ranks_drift_apart(fault: str) -> None:
    assert len(set(ended_well(f"ddp/{fault}").weights())) == 2


def test_without_a_sampler_all_ranks_see_the_same_and_an_epoch_is_as_long_as_on_one(healthy: Ran) -> None:
    ran = ended_well("ddp/no_sampler")
    first, second = ran.beginnings()
    assert first == second
    assert ran.fact("loader")["length"] == 2 * healthy.fact("loader")["length"]
    assert ran.series("loss", 0) == ran.series("loss", 1)


def test_without_set_epoch_every_epoch_has_the_same_order() -> None:
    for begins in ended_well("ddp/no_set_epoch").beginnings():
        assert len(begins) == 2
        assert len(set(begins)) == 1


def test_uneven_inputs_end_in_a_lost_connection() -> None:
    ran = run_demo("faults/ddp/uneven_inputs", timeout=8, **{**FEW, "steps": 40, "train_samples": 320})
    assert all(ran.codes), ran.text
    assert not any("ends with weights" in text for text in ran.texts)
    assert [ran.fact("loader", rank)["length"] for rank in (0, 1)] == [10, 7]


def test_a_barrier_on_one_rank_stops_all() -> None:
    ran = run_demo("faults/ddp/only_rank_0", timeout=8, **FEW)
    assert all(ran.codes), ran.text
    assert [len(begins) for begins in ran.beginnings()] == [1, 2]  # rank 1 is in the next epoch
    assert "in test\n    dist.barrier()" in ran.texts[0]


def test_an_unused_layer_is_an_error_in_the_second_step() -> None:
    ran = run_demo("faults/ddp/unused_parameters", **FEW)
    assert ran.codes == [1, 1]
    assert "Expected to have finished reduction in the prior iteration" in ran.text
    assert "Parameter indices which did not receive grad for rank 0: 10 11" in ran.text


def test_batch_norm_sees_4_samples_and_is_not_synchronized() -> None:
    ran = ended_well("ddp/bn_not_synced", batch_size=4)
    assert ran.fact("model")["batch_norm"] == {"layers": 2, "synced": 0, "frozen": 0}
    assert ran.fact("batches")["rows"] == 4


def test_a_wrappers_weights_do_not_fit_the_module() -> None:
    ran = run_demo("faults/ddp/state_dict_prefix", **FEW)
    assert ran.codes == [1, 0]
    assert 'Unexpected key(s) in state_dict: "module.0.weight"' in ran.texts[0]


def test_two_ranks_writing_one_file_damage_it(tmp_path: Path) -> None:
    ended_well("ddp/ranks_write_one_file", save=tmp_path / "model.pt")
    (written,) = tmp_path.glob("predictions-*.csv")
    assert len(written.read_text().splitlines()) < 2 * 18 * 16  # each rank wrote 18 x 16 lines, in the same place


def test_a_model_on_the_cpu_is_refused_with_device_ids() -> None:
    ran = run_demo("faults/ddp/wrapped_before_move", **FEW)
    assert ran.codes == [1, 1]
    assert "DistributedDataParallel device_ids and output_device arguments only work with" in ran.text


# ---- input, settings


def data_share(ran: Ran, rank: int = 0) -> float:
    return sum(ran.series("phase/data", rank)) / sum(ran.series("step_s", rank))


def test_a_slow_loader_takes_a_large_part_of_each_step(healthy: Ran) -> None:
    ran = ended_well("input/slow_loader")
    assert ran.fact("loader")["num_workers"] == 0
    assert data_share(ran) > 2 * data_share(healthy)  # no fixed share: other work on the machine makes the rest longer


def test_too_many_workers_are_warned_of() -> None:
    ran = ended_well("input/too_many_workers", steps=4)
    assert "Our suggested max number of worker in current system is" in ran.text


def test_workers_share_one_core() -> None:
    ran = ended_well("input/workers_on_one_core", steps=4)
    assert ran.fact("loader")["num_workers"] == 4


def test_workers_that_restart_delay_every_epoch() -> None:
    ran = ended_well("input/workers_restart")
    assert ran.fact("loader")["persistent_workers"] is False
    assert ran.text.count("is ready") == 2 * 2 * 2  # two processes on two ranks, in each of two epochs
    assert all("is ready" in part for part in ran.texts[0].split("epoch 0 accuracy"))


def test_debugging_is_on() -> None:
    ran = ended_well("input/debug_flags")
    assert "Anomaly Detection has been enabled" in ran.text
    assert ran.fact("settings")["anomaly_detection"] is True


def test_a_test_every_5_steps_stalls_training() -> None:
    ran = ended_well("input/periodic_stall", steps=12, train_samples=2000)
    assert len(ran.series("accuracy")) == 3  # after 5, 10 and at the end


# ---- ranks that differ


def test_one_rank_waits_for_its_data() -> None:
    ran = ended_well("ranks/slow_data_on_one_rank")
    assert data_share(ran, 1) > data_share(ran, 0)
    assert sum(ran.series("phase/data", 1)) > 18 * 0.016 * 0.9  # a thousandth of a second for each of 16 images


def test_one_rank_computes_longer() -> None:
    ran = ended_well("ranks/slow_gpu_on_one_rank", batch_size=64, train_samples=1200)
    forward = [statistics.median(ran.series("phase/forward", rank)) for rank in (0, 1)]
    assert forward[1] > 1.5 * forward[0]


def test_batches_differ_in_size_and_so_does_who_is_slow() -> None:
    ran = ended_well("ranks/uneven_batches")
    speeds = [ran.series("samples_per_s", rank) for rank in (0, 1)]
    assert speeds[0] != speeds[1]
    # What the model was called with: the loader's batches are all of one size.
    first, second = ({step: rows for step, rows, _ in ran.fact("batches", rank)["called"]} for rank in (0, 1))
    common = set(first) & set(second)
    assert len(common) >= 4
    assert any(first[step] != second[step] for step in common)
    assert all(1 <= rows <= 64 for rows in (*first.values(), *second.values()))
    assert len(set(ran.weights())) == 1  # DDP does not mind


def test_rank_0_does_more_between_its_steps() -> None:
    ran = ended_well("ranks/rank_0_does_more")
    known = ("phase/data", "phase/forward", "phase/backward", "phase/optimizer")
    rest = [sum(ran.series("step_s", rank)) - sum(sum(ran.series(name, rank)) for name in known) for rank in (0, 1)]
    assert rest[0] > rest[1]


# ---- hangs


def test_a_rank_that_waits_stops_the_others() -> None:
    ran = run_demo("faults/ranks/one_rank_waits", timeout=8, **FEW)
    assert ran.codes == [1, -9]  # rank 0 gave up; rank 1 would wait for ever, and was ended
    assert "Timed out waiting 8000ms" in ran.texts[0]
    assert ran.series("step")[-1:] in ([], [9.0])


def test_a_world_that_is_too_large_never_begins() -> None:
    ran = run_demo("faults/ranks/wrong_world_size", timeout=8, **FEW)
    assert ran.codes == [1, 1]
    assert "rank 0 waits for 3 ranks" in ran.text
    assert ran.run is None


def test_a_killed_rank_takes_the_others_down() -> None:
    ran = run_demo("faults/ranks/dead_rank", timeout=5, **FEW)
    assert ran.codes == [1, -9]
    assert re.search(r"Connection (closed|reset) by peer", ran.texts[0])
