"""Each fault is named first and in time, with evidence and a fix for this very run; its look-alikes are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.snapshot import Ancestor, DeviceUse, LaunchEnvironment, Snapshot
from gputop.whereabouts.records import HeldModels, Holdings
from tests import samples
from tests.doctor.scenes.base import (
    first_seen,
    gpus,
    ids,
    journal,
    last_verdict,
    one_rank,
    play,
    rank,
    scene,
    single,
    use,
    uuid,
    virtual,
    virtual_rank,
    virtual_run,
)
from tests.doctor.scenes.placement import four_on_one, ghosts, on_cpu, plain, ranks_on_gpu_0, two_of_eight
from tests.samples import EPOCH, GIB

# ---- A07


def test_a07_names_ranks_on_one_gpu_within_15_s_and_nothing_else():
    said = play(ranks_on_gpu_0, 20)
    second = first_seen(said, "A07")
    assert second is not None
    assert second <= 12
    assert all(ids(findings) in ([], ["A07"]) for findings in said), "its symptoms stay hidden, also before it is certain"
    finding = said[-1][0]
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.title == "Only GPU 0 is used: all 4 ranks run on it"
    assert "LOCAL_RANK 0-3" in finding.evidence[0].text
    assert uuid(0)[:8] in finding.evidence[0].text
    assert finding.devices[0] == uuid(0)
    assert finding.pids == (4000, 4001, 4002, 4003)
    assert finding.run == "run-1"
    assert "torch.cuda.set_device(local_rank)" in finding.fix


def test_a07_counts_ranks_and_not_their_dataloader_workers():
    def with_workers(second):
        processes = []
        for number in range(2):
            main = rank(number, use(number), world=2, second=second, cuda_visible_devices="0,1")
            worker = replace(
                main, pid=5000 + number, ppid=main.pid, devices=(use(0, 0.5, 0),), ancestors=(Ancestor(main.pid, "python"),)
            )
            processes += [main, worker]
        return scene(second, gpus([0, 1]), tuple(processes), (journal(2, second),))

    assert "A07" not in ids(play(with_workers, 20)[-1])


@pytest.mark.parametrize("masks", [("0", "1", "2", "3"), ("2,3", "2,3", "2,3", "2,3")], ids=["mask per rank", "two for four"])
def test_a07_compares_uuids_and_not_local_ranks(masks):
    """SLURM gives every task LOCAL_RANK 0 and another GPU; four ranks on two visible GPUs have no GPU left."""
    places = (0, 1, 2, 3) if masks[0] == "0" else (2, 3, 2, 3)

    def look_alike(second):
        processes = tuple(
            rank(n, use(place), world=4, second=second, local_rank=0, cuda_visible_devices=masks[n])
            for n, place in enumerate(places)
        )
        return scene(second, gpus(set(places), 4), processes, (journal(4, second),))

    assert "A07" not in ids(play(look_alike, 20)[-1])


def test_a07_stays_silent_where_the_machine_has_one_gpu():
    def one_gpu(second):
        processes = tuple(rank(n, use(0, 10), world=2, second=second) for n in range(2))
        return scene(second, gpus([0], 1), processes, (journal(2, second),))

    assert play(one_gpu, 30)[-1] == ()


def test_a07_with_the_same_local_rank_everywhere_blames_the_launcher():
    def slurm(second):
        processes = tuple(rank(n, use(0, 15), world=4, second=second, local_rank=0) for n in range(4))
        return scene(second, gpus([0]), processes, (journal(4, second),))

    finding = last_verdict(slurm)
    assert finding.id == "A07"
    assert "same LOCAL_RANK" in finding.cause
    assert "set_device" not in finding.fix


def test_a07_from_the_journal_alone_where_the_container_hides_pids():
    """torch writes UUIDs without "GPU-"; the driver's PIDs mean nothing here."""

    def container(second):
        stated = {"devices": [{"uuid": uuid(0).removeprefix("GPU-"), "virtual_index": None}]}
        foreign = tuple(
            replace(single(90_000 + n, use(0, 15)), in_namespace=False, environment=None, torch_mapped=None) for n in range(2)
        )
        return scene(second, gpus([0], 4), foreign, (journal(2, second, stated),))

    finding = last_verdict(container, 8)
    assert finding.id == "A07"
    assert finding.confidence == "certain"


# ---- A07 on virtual GPUs


def test_a07_on_virtual_gpus_is_certain_within_10_s():
    def fault(second):
        processes = tuple(virtual_rank(n, 0) for n in range(2)) if second >= 2 else ()
        return virtual(second, {0: 95.0}, processes, (virtual_run(second, [0, 0]),) if second >= 2 else ())

    said = play(fault, 20)
    second = first_seen(said, "A07")
    assert second is not None
    assert second <= 12
    assert ids(said[-1]) == ["A07"]
    assert said[-1][0].title == "Only GPU 0 is used: both ranks run on it"
    assert said[-1][0].devices == ("virtual-0", "virtual-1"), "GPUs outside the run's mask are no concern of it"


def test_two_ranks_on_the_only_virtual_gpu_of_their_mask_are_no_fault():
    def meant(second):
        processes = tuple(virtual_rank(n, 0, mask="0") for n in range(2))
        return virtual(second, {0: 95.0}, processes, (virtual_run(second, [0, 0]),))

    assert play(meant, 60)[-1] == ()


# ---- A01


def test_a01_names_a_script_without_a_launcher():
    said = play(plain, 20)
    second = first_seen(said, "A01")
    assert second is not None
    assert second <= 15
    finding = said[-1][0]
    assert (finding.confidence, finding.severity) == ("likely", "warning")
    assert finding.title == "Only GPU 0 is used: started without a launcher"
    assert "torchrun --standalone --nproc-per-node=4 train.py --lr 0.1" in finding.fix
    assert "CUDA_VISIBLE_DEVICES=0 python train.py" in finding.refuted_by
    assert len(finding.devices) == 4


def test_a01_is_certain_when_the_journal_saw_the_model_without_a_wrapper():
    def tracked(second):
        run = replace(
            journal(1, second),
            world_size=1,
            ranks=(one_rank(step=second + 100, facts={"model": {"parameter_device": "cuda:0"}}),),
        )
        process = replace(single(4000, use(0), second=second, visible=4), run_id="run-1", rank=0)
        return scene(second, gpus([0], 4), (process,), (run,))

    finding = last_verdict(tracked)
    assert (finding.id, finding.confidence, finding.run) == ("A01", "certain", "run-1")


@pytest.mark.parametrize(
    ("others", "title"),
    [
        ((), "Only GPU 0 is used: DataParallel runs in one process"),
        ((1, 2, 3), "Only GPU 0 works: DataParallel runs in one process"),
    ],
    ids=["nothing on the others", "memory on the others"],
)
def test_a01_calls_a_gpu_that_holds_memory_used(others, title):
    def wrapped(second):
        facts = {"model": {"wrapper": "DataParallel", "wrappers": ["DataParallel"]}}
        uses = (use(0), *(use(index, 2.0, 0.0) for index in others))
        process = replace(single(4000, *uses, second=second, visible=4), run_id="run-1", rank=0)
        return scene(second, gpus([0], 4), (process,), (journal(1, second, facts),))

    finding = last_verdict(wrapped)
    assert (finding.id, finding.title) == ("A01", title)


def test_a01_offers_only_the_free_gpus():
    def shared(second):
        other = single(7000, use(2), uid=1001, user="bob", environment=None)
        return scene(second, gpus([0, 2], 4), (single(4000, use(0), second=second, visible=4), other))

    finding = last_verdict(shared)
    assert finding.id == "A01"
    assert "CUDA_VISIBLE_DEVICES=0,1,3 torchrun --standalone --nproc-per-node=3" in finding.fix


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": "0"},
        {"environment": None},
        {"autograd_threads": ()},
        {"torch_mapped": False, "autograd_threads": ()},
        {"started_at": EPOCH},
    ],
    ids=["mask", "another user's", "inference", "no torch", "warm-up"],
)
def test_a01_look_alikes(changes):
    assert "A01" not in ids(play(lambda second: plain(second, **changes), 25)[-1])


def test_a01_leaves_a_notebook_its_own_fix():
    finding = last_verdict(lambda second: plain(second, command=("python", "-m", "ipykernel_launcher", "-f", "kernel.json")))
    assert (finding.id, finding.confidence) == ("A11", "possible")
    assert "notebook_launcher(train, args=(), num_processes=4)" in finding.fix


# ---- A02


def test_a02_names_too_few_ranks():
    said = play(two_of_eight, 20)
    second = first_seen(said, "A02")
    assert second is not None
    assert second <= 15
    finding = said[-1][0]
    assert finding.title == "Only 2 ranks were started: 2 of 8 GPUs work"
    assert finding.fix == "torchrun --nproc-per-node=8 train.py --epochs 3"
    assert "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=2" in finding.refuted_by


def test_a02_leaves_a_masked_run_and_gpus_with_owners_alone():
    def masked(second):
        processes = tuple(
            rank(n, use(n), world=2, second=second, cuda_visible_devices="0,1", gputop_job_id="job-1") for n in range(2)
        )
        return scene(second, gpus([0, 1]), processes, (journal(2, second),))

    def owned(second):
        processes = tuple(rank(n, use(n), world=2, second=second) for n in range(2))
        others = tuple(single(7000 + n, use(n, 3, 0), uid=1001, environment=None) for n in range(2, 8))
        return scene(second, gpus([0, 1]), processes + others, (journal(2, second),))

    assert play(masked, 30)[-1] == ()
    assert play(owned, 30)[-1] == ()


# ---- A03


def test_a03_is_information_when_one_gpu_is_masked_beside_free_ones():
    finding = last_verdict(lambda second: plain(second, mask="0"))
    assert (finding.id, finding.severity, finding.confidence) == ("A03", "info", "certain")
    assert finding.fix == "env -u CUDA_VISIBLE_DEVICES python train.py --lr 0.1"


def test_a03_warns_and_hides_a07_when_more_ranks_than_visible_gpus_were_started():
    said = play(four_on_one, 20)
    assert ids(said[-1]) == ["A03"]
    assert said[-1][0].severity == "warning"
    assert said[-1][0].title == "4 ranks, but CUDA_VISIBLE_DEVICES shows 1 GPU"


def test_a03_hears_a_command_line_that_asks_for_more():
    finding = last_verdict(lambda second: plain(second, mask="1", command=("python", "train.py", "--gpus", "0,1,2,3")), 10)
    assert (finding.id, finding.severity) == ("A03", "warning")
    assert any("asks for 4 GPUs" in fact.text for fact in finding.evidence)


IN_DATA_PARALLEL = HeldModels(("DataParallel", "Net"), "DataParallel", devices=1)


def test_a03_warns_of_a_data_parallel_that_the_mask_leaves_one_gpu():
    def masked(second, held=IN_DATA_PARALLEL, others=()):
        shot = plain(second, mask="0", held=Holdings(held))
        taken = (single(5000 + n, use(n), second=second, visible=4, user="bob", uid=1001) for n in others)
        return replace(shot, processes=(*shot.processes, *taken), devices=gpus([0, *others], 4))

    finding = last_verdict(masked)
    assert (finding.id, finding.severity, finding.confidence) == ("A03", "warning", "possible")
    assert "nn.DataParallel was given 1 device" in [fact.text for fact in finding.evidence]
    assert play(lambda second: masked(second, others=(1, 2, 3)), 40)[-1] == (), "the others are taken"
    alone = last_verdict(lambda second: masked(second, HeldModels(("Net",))))
    assert (alone.id, alone.severity) == ("A03", "info"), "without DataParallel, the mask is for information only"


@pytest.mark.parametrize("is_tracked", [True, False], ids=["tracked", "by its variables"])
def test_a03_warns_of_a_data_parallel_that_the_mask_leaves_one_virtual_gpu(is_tracked: bool):
    def masked(second, wrapper="DataParallel", mask="0"):
        run = virtual_run(second, [0], {"model": {"wrapper": wrapper}})
        process = replace(virtual_rank(0, 0, 1), launcher=None, environment=LaunchEnvironment(virtual_devices=mask))
        if is_tracked:
            return virtual(second, {0: 60.0}, (process,), (run,), 2)
        untracked = replace(process, rank=None, run_id=None, held=Holdings(HeldModels(("Net",), wrapper)))
        return virtual(second, {0: 60.0}, (untracked,), (), 2)

    finding = last_verdict(masked)
    assert (finding.id, finding.severity, finding.confidence) == ("A03", "warning", "possible")
    assert "the model is in nn.DataParallel" in [fact.text for fact in finding.evidence]
    assert play(lambda second: masked(second, wrapper=None), 40)[-1] == ()
    assert "A03" not in ids(play(lambda second: masked(second, mask="0,1"), 40)[-1])


# ---- A12


def test_a12_is_certain_once_steps_progress_on_cpu_parameters():
    said = play(lambda second: on_cpu(second, {"model": {"parameter_device": "cpu"}, "torch": {"cuda_available": False}}), 5)
    assert ids(said[-1]) == ["A12"]
    finding = said[-1][0]
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert "CPU build" in finding.cause


def test_a12_with_cuda_available_says_that_the_model_was_never_moved():
    finding = last_verdict(
        lambda second: on_cpu(second, {"model": {"parameter_device": "cpu"}, "torch": {"cuda_available": True}})
    )
    assert finding.id == "A12"
    assert 'model.to("cuda")' in finding.fix


def test_a12_from_outside_waits_for_two_minutes_of_cpu_load():
    said = play(on_cpu, 130)
    second = first_seen(said, "A12")
    assert second is not None
    assert 120 <= second <= 125
    assert said[-1][0].confidence == "likely"


def test_a12_gives_way_to_a_mask_that_cuda_cannot_read():
    said = play(lambda second: on_cpu(second, {"torch": {"cuda_available": False}}, mask="0,0"), 20)
    assert all(ids(findings) in ([], ["A05"]) for findings in said), "the mask is the root, the CPU its symptom"
    assert said[-1][0].severity == "error"
    assert said[-1][0].fix.startswith("CUDA_VISIBLE_DEVICES=0 python train.py")


@pytest.mark.parametrize("changes", [{"mask": ""}, {"mask": "-1"}, {"command": ("python", "train.py", "--device", "cpu")}])
def test_a12_is_information_when_the_cpu_was_asked_for(changes):
    finding = last_verdict(lambda second: on_cpu(second, {"torch": {"cuda_available": False}}, **changes))
    assert (finding.id, finding.severity) == ("A12", "info")


def test_a12_knows_a_torch_helper_of_a_gpu_job_from_a_cpu_run():
    def helper(second):
        main = single(4000, use(0), second=second, mask="0", environment=None)
        worker = single(
            4100,
            nvidia_open=False,
            autograd_threads=(),
            ppid=4000,
            ancestors=(Ancestor(4000, "python"), Ancestor(3000, "bash")),
        )
        return scene(second, gpus([0], 2), (main, worker))

    assert "A12" not in ids(play(helper, 130)[-1])


# ---- B01, B02


def dp_facts(batch: int, rows: list[int], second: int, devices: int = 2, **counts: int):
    fact = {
        "device_ids": list(range(devices)),
        "replicas": devices,
        "batch_rows": batch,
        "rows_per_device": rows,
        "calls": 10 * second,
        "underused_calls": 0,
        "uneven_calls": 0,
        "module": "LeNet",
    }
    return {"data_parallel": fact | counts}


def data_parallel(second: int, facts, places=(0,), count=2, command=("python", "train.py")) -> Snapshot:
    run = replace(journal(1, second), command=None, ranks=(one_rank(step=10 * second, facts=facts),))
    uses = tuple(use(place, 5) for place in places)
    process = replace(single(4000, *uses, second=second, visible=count, command=command), run_id="run-1", rank=0)
    return scene(second, gpus(places, count), (process,), (run,))


def test_b01_names_a_batch_smaller_than_the_devices():
    said = play(small_batch, 15)
    assert all(ids(findings) in ([], ["B01"]) for findings in said)
    finding = said[-1][0]
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.title == "DataParallel: batch of 1 feeds 1 of 2 GPUs"
    assert "1 / 0 rows" in finding.evidence[0].text
    assert "batch_size=64" in finding.fix
    assert finding.devices == (uuid(0), uuid(1))


def test_b01_changes_the_batch_in_the_command_that_was_typed():
    command = ("python", "-u", "train.py", "--batch-size", "1")
    finding = last_verdict(lambda s: data_parallel(s, dp_facts(1, [1], s, underused_calls=10 * s), command=command))
    assert finding.fix.startswith("python train.py --batch-size 64")


def test_b02_names_rows_that_run_out_and_the_nearest_good_batch():
    facts = lambda s: dp_facts(9, [2, 2, 2, 2, 1], s, devices=8, underused_calls=10 * s)  # noqa: E731
    finding = last_verdict(lambda s: data_parallel(s, facts(s), places=range(5), count=8))
    assert finding.id == "B02"
    assert finding.title == "DataParallel: batch of 9 feeds 5 of 8 GPUs"
    assert "batch_size=8" in finding.fix


def test_b02_names_an_uneven_split():
    facts = lambda s: dp_facts(10, [3, 3, 3, 1], s, devices=4, uneven_calls=10 * s)  # noqa: E731
    finding = last_verdict(lambda s: data_parallel(s, facts(s), places=range(4), count=4))
    assert (finding.id, finding.severity) == ("B02", "warning")
    assert finding.title == "DataParallel: 10 rows split unevenly, 3 to 1"


def test_b05_distinguishes_an_indivisible_argument_from_an_indivisible_batch():
    facts = lambda s: dp_facts(8, [2, 0, 0, 0], s, devices=4, underused_calls=10 * s)  # noqa: E731
    finding = last_verdict(lambda s: data_parallel(s, facts(s), places=range(4), count=4))
    assert finding.id == "B05"
    assert finding.title == "DataParallel: batch of 8 feeds 1 of 4 GPUs"
    assert "expand" in finding.fix


def test_device_ids_and_rows_are_read_as_the_tracking_writes_them():
    """Ids as text, a zero for each device without rows; the mask turns the order round."""
    facts = lambda s: dp_facts(5, [2, 2, 1, 0], s, device_ids=["0", "cuda:1", "2", "3"], underused_calls=10 * s)  # noqa: E731

    def turned(s):
        shot = data_parallel(s, facts(s), places=range(4), count=4)
        environment = LaunchEnvironment(cuda_visible_devices="3,2,1,0")
        return replace(shot, processes=(replace(shot.processes[0], environment=environment),))

    finding = last_verdict(turned)
    assert finding.id == "B02"
    assert finding.title == "DataParallel: batch of 5 feeds 3 of 4 GPUs"
    assert "2 / 2 / 1 / 0 rows" in finding.evidence[0].text
    assert finding.devices == (uuid(3), uuid(2), uuid(1), uuid(0))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.7])
def test_b01_forgives_the_small_last_batch_of_an_epoch(share):
    facts = lambda s: dp_facts(1, [1], s, underused_calls=int(share * 10 * s))  # noqa: E731
    assert play(lambda s: data_parallel(s, facts(s), places=(0, 1)), 20)[-1] == ()


def test_b01_waits_for_20_calls():
    assert play(lambda s: data_parallel(s, dp_facts(1, [1], 1, calls=19, underused_calls=19)), 20)[-1] == ()


def test_b01_forgets_what_was_mended_long_ago():
    """Counters count since the start: the last two minutes decide."""

    def mended(s):
        bad = 1000 * min(s, 10)
        rows = [1] if s <= 10 else [32, 32]
        return data_parallel(s, dp_facts(sum(rows), rows, s, calls=bad + 10 * s, underused_calls=bad), places=(0, 1))

    assert ids(play(mended, 9)[-1]) == ["B01"]
    assert play(mended, 140)[-1] == ()


def small_batch(second: int) -> Snapshot:
    return data_parallel(second, dp_facts(1, [1], second, underused_calls=10 * second))


def small_batch_on_virtual_gpus(second: int) -> Snapshot:
    facts = dp_facts(1, [1], second, underused_calls=10 * second)
    environment = LaunchEnvironment(virtual_devices="0,1", gputop_job_id="job-1")
    process = replace(virtual_rank(0, 0, 1), environment=environment, launcher=None)
    return virtual(second, {0: 60.0}, (process,), (virtual_run(second, [0], facts),))


def test_b01_on_virtual_gpus():
    said = play(small_batch_on_virtual_gpus, 20)
    assert all(ids(findings) in ([], ["B01"]) for findings in said)
    assert said[-1][0].devices == ("virtual-0", "virtual-1")


# ---- H01


def test_h01_names_ghost_contexts():
    said = play(ghosts, 10)
    second = first_seen(said, "H01")
    assert second is not None
    assert second <= 6
    finding = said[-1][0]
    assert finding.title == "Ranks 1-3 hold memory on GPU 0 too"
    assert "1.5 GiB together" in finding.evidence[0].text
    assert finding.pids == (4001, 4002, 4003)
    assert "map_location" in finding.fix


@pytest.mark.parametrize(("ghost", "own"), [(20.0, 40.0), (1.0, 1.5)], ids=["a real share", "no heavier elsewhere"])
def test_h01_look_alikes(ghost, own):
    assert "H01" not in ids(play(lambda second: ghosts(second, ghost, own), 15)[-1])


def test_h01_is_part_of_a07_if_that_is_reported():
    def both(second):
        processes = tuple(rank(n, use(0, 15), world=4, second=second) for n in range(3))
        processes += (rank(3, use(3, 30), use(0, 0.5, 0), world=4, second=second),)
        return scene(second, gpus([0, 3]), processes, (journal(4, second),))

    said = play(both, 20)
    assert ids(said[-1]) == ["A07"]
    assert said[-1][0].title == "3 of 4 ranks share GPU 0; 6 GPUs have none"


def test_memory_that_the_driver_does_not_report_is_unknown_and_not_guessed():
    from gputop.doctor.diagnosis import Doctor

    def unknown(second):
        uses = [(use(0, None),), (DeviceUse(uuid(1), None, 90.0, "C"), DeviceUse(uuid(0), None, 0.0, "C"))]
        facts = {"devices": [{"uuid": uuid(1)}]}
        run = journal(2, second)
        run = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], facts=facts)))
        return scene(second, gpus([0, 1], 2), tuple(rank(n, *uses[n], world=2, second=second) for n in range(2)), (run,))

    doctor = Doctor()
    assert play(unknown, 15, doctor)[-1] == ()
    assert "H01" in [item.rule for item in doctor.abstained]


def test_samples_fault_is_found():
    assert ids(play(samples.ranks_on_one_gpu, 15)[-1]) == ["A07"]
    assert GIB == 2**30
