"""Visibility, placement and launch (catalogue A): each fault first and with its fix, its look-alikes left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.rules import HIDES
from gputop.doctor.rules.launching.launchers import independent_worlds
from gputop.snapshot import Ancestor, LaunchEnvironment, Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests import samples
from tests.doctor.scenes import placement
from tests.doctor.scenes.base import gpus, ids, journal, last_verdict, play, rank, scene, single, use, uuid
from tests.samples import GIB


@pytest.mark.parametrize(
    ("rule", "name", "fault", "seconds"), placement.FAULTS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_each_fault_stands_first_and_alone(rule, name, fault, seconds):
    said = play(fault, seconds)
    assert ids(said[-1]) == [rule]
    assert all(set(ids(findings)) <= {rule, *HIDES.get(rule, ())} for findings in said), "only its symptoms may stand before it"
    finding = said[-1][0]
    assert len(finding.evidence) > 0
    assert all(fact.source for fact in finding.evidence)
    assert finding.cause
    assert finding.fix
    assert finding.severity != "info"


@pytest.mark.parametrize(
    ("name", "healthy", "seconds"), placement.HEALTHY, ids=lambda part: part if isinstance(part, str) else ""
)
def test_look_alikes_are_left_alone(name, healthy, seconds):
    for second, findings in enumerate(play(healthy, seconds)):
        assert [f.id for f in findings if f.confidence != "possible"] == [], f"at second {second}"


# ---- A01


@pytest.mark.parametrize(
    ("activities", "found"),
    [
        (("backward", "optimizer"), ["A01"]),
        (("forward", "forward", "optimizer"), ["A01"]),
        (("forward", "optimizer"), []),
        (("other", "optimizer"), []),
    ],
)
def test_a01_is_not_about_a_process_that_others_compute_gradients_for(
    activities: tuple[Activity, ...], found: list[str]
) -> None:
    def seen(second: int) -> Snapshot:
        shot = placement.plain(second)
        doing = Doing(activities[second % len(activities)], "train.py:60", "fit")
        return replace(shot, processes=tuple(replace(process, doing=doing) for process in shot.processes))

    assert ids(play(seen, 60)[-1]) == found


# ---- A04


def test_a04_shows_both_masks_and_what_cuda_shows():
    finding = last_verdict(placement.set_late, 5)
    assert (finding.severity, finding.confidence, finding.run) == ("warning", "certain", "run-1")
    assert finding.title == "CUDA_VISIBLE_DEVICES=2,3 was set too late: it has no effect"
    texts = [fact.text for fact in finding.evidence]
    assert "at launch: CUDA_VISIBLE_DEVICES was not set" in texts
    assert "CUDA shows GPUs 0-3" in texts
    assert "CUDA_VISIBLE_DEVICES=2,3 python train.py --lr 0.1" in finding.fix


def test_a04_where_cuda_refuses_to_start():
    message = (
        "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
        "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
    )

    def refused(second):
        environment = {"cuda_visible_devices_launch": None, "cuda_visible_devices_now": "2,3"}
        facts = {"error": {"type": "RuntimeError", "message": message, "where": "train.py:9"}, "environment": environment}
        run = samples.run(1)
        return placement.failed(second, replace(run, ranks=(replace(run.ranks[0], facts=facts),)))

    finding = last_verdict(refused, 3)
    assert (finding.id, finding.severity) == ("A04", "error")
    assert "os.environ at the end: CUDA_VISIBLE_DEVICES=2,3" in [fact.text for fact in finding.evidence]
    assert "CUDA_VISIBLE_DEVICES=2,3 torchrun" in finding.fix


def test_a04_uses_the_number_of_devices_if_cuda_reports_no_uuids():
    def counted(second):
        shot = placement.set_late(second)
        facts = dict(shot.runs[0].ranks[0].facts)
        facts["environment"] = {**facts["environment"], "visible_uuids": None}
        return replace(shot, runs=(replace(shot.runs[0], ranks=(replace(shot.runs[0].ranks[0], facts=facts),)),))

    finding = last_verdict(counted)
    assert (finding.id, finding.confidence) == ("A04", "likely")
    assert any("torch sees 4 GPUs, the mask names 2" in fact.text for fact in finding.evidence)


def test_a04_is_silent_where_the_late_mask_names_the_gpu_in_use():
    """Ultralytics sets the variable late, and chooses the device as well."""
    assert "A04" not in ids(play(lambda second: placement.set_late(second, "0"), 10)[-1])


# ---- A05


@pytest.mark.parametrize(
    ("mask", "title", "cause", "fix"),
    [
        ("0;1", "CUDA_VISIBLE_DEVICES=0;1 leaves 1 GPU", "separated by commas", "CUDA_VISIBLE_DEVICES=0,1 python train.py"),
        ("0,0", "CUDA_VISIBLE_DEVICES=0,0 leaves no GPU", "repeated", "CUDA_VISIBLE_DEVICES=0 python train.py"),
        (
            "0,1,7",
            "CUDA_VISIBLE_DEVICES=0,1,7 leaves 2 GPUs",
            "names no GPU on the machine (7)",
            "CUDA_VISIBLE_DEVICES=0,1 python",
        ),
        ("0,x,1", "CUDA_VISIBLE_DEVICES=0,x,1 leaves 1 GPU", "cannot be read", "CUDA_VISIBLE_DEVICES=0,1 python train.py"),
    ],
)
def test_a05_says_how_cuda_reads_the_list(mask, title, cause, fix):
    finding = last_verdict(lambda second: placement.malformed(second, mask), 5)
    assert (finding.id, finding.confidence, finding.title) == ("A05", "certain", title)
    assert finding.severity == ("error" if "no GPU" in title else "warning")
    assert cause in finding.cause
    assert finding.fix.startswith(fix)


def test_a05_of_virtual_gpus_names_their_own_variable():
    finding = last_verdict(placement.malformed_virtual, 5)
    assert finding.title == "GPUTOP_VIRTUAL_DEVICES=0,0 leaves no GPU"
    assert finding.fix.startswith("GPUTOP_VIRTUAL_DEVICES=0 torchrun")


@pytest.mark.parametrize("mask", ["", "-1", "0", "0,1,2,3", "GPU-5f000001"])
def test_a05_leaves_masks_alone_that_cuda_reads_as_they_are_written(mask):
    assert "A05" not in ids(play(lambda second: scene(second, gpus([], 4), (single(4000, mask=mask),)), 5)[-1])


def test_a05_counts_a_gpu_that_was_lost_since_the_launch():
    def lost(second):
        shot = scene(
            second, gpus(range(4), 4), tuple(rank(n, use(n), world=4, cuda_visible_devices="0,1,2,3") for n in range(4))
        )
        return shot if second < 5 else replace(shot, devices=shot.devices[:3])

    assert "A05" not in {finding.id for findings in play(lost, 30) for finding in findings}


# ---- A06


def test_a06_names_the_card_that_was_meant_and_the_one_in_use():
    finding = last_verdict(placement.other_order, 5)
    assert finding.title == "CUDA_VISIBLE_DEVICES=0 names GPU 2, not GPU 0"
    assert any("GPU 2 (NVIDIA RTX A6000)" in fact.text for fact in finding.evidence)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 python train.py" in finding.fix
    assert f"CUDA_VISIBLE_DEVICES={uuid(0)} python train.py" in finding.fix


def test_a06_knows_no_other_order_among_equal_cards():
    def equal(second):
        shot = placement.other_order(second)
        return replace(shot, devices=tuple(replace(device, name="NVIDIA RTX A6000") for device in shot.devices))

    assert "A06" not in ids(play(equal, 10)[-1])


def test_a06_abstains_until_the_card_is_known():
    doctor = Doctor()
    waiting = placement.other_order
    play(lambda second: replace(waiting(second), processes=(replace(waiting(second).processes[0], devices=()),)), 3, doctor)
    assert "A06" in [item.rule for item in doctor.abstained]


# ---- A08, A13, A15, A17


def test_a08_names_rank_and_local_rank_of_the_failed_rank():
    finding = last_verdict(placement.second_machine, 3)
    assert finding.title == "Rank 5 used GPU 5 on a machine with 4 GPUs: RANK is not LOCAL_RANK"
    assert any("rank 5 is local rank 1" in fact.text for fact in finding.evidence)
    assert 'int(os.environ["LOCAL_RANK"])' in finding.fix


def test_a08_is_silent_where_both_numbers_agree_and_the_text_speaks_for_itself():
    (finding,) = play(placement.one_machine, 5)[-1]
    assert (finding.id, finding.confidence) == ("invalid_ordinal", "likely")
    assert "no more ranks than GPUs" in finding.fix


def test_a13_names_both_devices_and_the_line():
    finding = last_verdict(placement.two_devices_in_the_journal, 3)
    assert finding.title == "One operation got tensors on cuda:0 and cpu"
    assert [fact.value for fact in finding.evidence][-1] == "train.py:41"
    assert "x = x.to(device" in finding.fix


def test_a13_of_a_model_that_stays_on_the_cpu_beside_its_gpu():
    finding = last_verdict(placement.model_left_on_cpu)
    assert finding.title == "The model trains on the CPU; GPU 0 holds only a context"
    assert finding.devices == (uuid(0),)


def test_a13_leaves_the_first_error_of_a_replica_to_dataparallel():
    def replica(second):
        shot = placement.two_devices(second)
        inner = placement.said("dp_replica_error", "RuntimeError: Caught RuntimeError in replica 1 on device 1.")
        return replace(shot, logs=(*shot.logs, inner))

    assert "A13" not in ids(play(replica, 5)[-1])


def test_a15_names_the_mode_and_how_to_end_it():
    finding = last_verdict(placement.exclusive, 3)
    assert "exclusive_process" in finding.evidence[0].text
    assert "nvidia-smi -c DEFAULT" in finding.fix
    (finding,) = play(lambda second: placement.exclusive(second, "default"), 5)[-1]
    assert (finding.id, finding.confidence) == ("devices_busy", "likely")


def test_a17_gives_the_same_launch_by_torchrun():
    finding = last_verdict(placement.local_rank_refused, 3)
    assert finding.fix.startswith("torchrun --nproc_per_node=4 train.py --lr 1\n")


def test_output_of_a_run_no_longer_counts_once_it_continues():
    def goes_on(second):
        shot = placement.local_rank_refused(second)
        return replace(shot, runs=(replace(shot.runs[0], state="running"),))

    assert play(goes_on, 5)[-1] == ()


def test_output_of_a_launch_without_a_journal_is_judged_too():
    def launched(second):
        line = "train.py: error: unrecognized arguments: --local-rank=0"
        shot = scene(second, gpus([], 4))
        return replace(shot, logs=(placement.said("local_rank_dash", line, run_id=None, job_id="job-7"),))

    assert ids(play(launched, 3)[-1]) == ["A17"]


# ---- A14


def test_a14_names_ranks_that_share_an_instance():
    finding = last_verdict(placement.ranks_on_one_instance)
    assert (finding.severity, finding.title) == ("error", "2 ranks on MIG: a process sees one of 4 instances")
    assert "2 ranks share one instance" in finding.evidence[1].text
    assert "CUDA_VISIBLE_DEVICES=MIG-0 python train.py" in finding.fix
    assert "sudo nvidia-smi -i 0 -mig 0" in finding.fix


def test_a14_leaves_ranks_on_instances_of_their_own_alone():
    def apart(second):
        uses = [replace(use(0), device_uuid=f"MIG-{n}", memory_used_bytes=4 * GIB) for n in range(2)]
        ranks = tuple(rank(n, uses[n], world=2, second=second) for n in range(2))
        return scene(second, placement.mig_devices(), ranks, (journal(2, second),))

    assert "A14" not in ids(play(apart, 20)[-1])


# ---- A18


def test_a18_says_how_many_there_are_and_how_to_start_them_as_one_run():
    finding = last_verdict(placement.independent)
    assert finding.title == "4 processes of one script train 4 models: none knows about the others"
    assert finding.pids == (4000, 4001, 4002, 4003)
    assert finding.fix == "torchrun --standalone --nproc-per-node=4 train.py --lr 0.1"


def test_a18_asks_once_whether_many_processes_of_one_group_train(monkeypatch):
    """Asking looks at each process of the group, so asking for each process would take the square of their number."""
    evidence = Evidence()
    evidence.observe(placement.independent(20))
    asked = []
    monkeypatch.setattr(Evidence, "trains", lambda self, group: asked.append(group.key) or True)
    assert [judgement is not None for judgement in independent_worlds(evidence).values()] == [True]
    assert asked == ["launcher:3999"]


def test_a18_judges_by_the_size_of_the_group_and_not_by_its_threads():
    finding = last_verdict(placement.worlds_of_one)
    assert (finding.id, finding.confidence) == ("A18", "likely")
    assert any("its own process group" in fact.text for fact in finding.evidence)

    def one_world(second):
        shot = placement.worlds_of_one(second)
        facts = {"devices": [{"virtual_index": 0}], "process_group": {"world_size": 2}}
        runs = tuple(replace(run, ranks=(replace(run.ranks[0], facts=facts),)) for run in shot.runs)
        return replace(shot, runs=runs)

    assert "A18" not in ids(play(one_world, 20)[-1])


def test_a18_knows_ranks_that_were_told_to_be_alone_by_their_local_ranks():
    finding = last_verdict(placement.told_that_it_is_alone)
    assert (finding.id, finding.confidence) == ("A18", "likely")
    assert [fact.text for fact in finding.evidence[1:3]] == ["WORLD_SIZE is 1 in each of them", "but LOCAL_RANK is 0, 1"]

    def met(second):
        shot = placement.told_that_it_is_alone(second)
        facts = {"process_group": {"backend": "gloo", "world_size": 2, "rank": 0}}
        processes = tuple(replace(process, run_id=f"run-{process.pid}") for process in shot.processes)
        runs = []
        for process in processes:
            run = journal(1, second, facts)
            runs.append(replace(run, run_id=f"run-{process.pid}", ranks=(replace(run.ranks[0], pid=process.pid),)))
        return replace(shot, processes=processes, runs=tuple(runs))

    assert "A18" not in ids(play(met, 20)[-1]), "the script passes a world size of its own"


@pytest.mark.parametrize("name", ["LOCAL_RANK", "RANK"])
def test_a18_knows_ranks_that_were_started_without_a_world_size(name: str):
    """A bash loop, as people write it: RANK=$i LOCAL_RANK=$i python train.py &"""

    def unsized(second, threads=()):
        shot = placement.told_that_it_is_alone(second)
        given = [{"local_rank": n} if name == "LOCAL_RANK" else {"rank": n} for n in range(2)]
        processes = (
            replace(process, environment=LaunchEnvironment(**numbers), threads=threads, autograd_threads=((n, 5.0 + second),))
            for n, (process, numbers) in enumerate(zip(shot.processes, given, strict=True))
        )
        return replace(shot, processes=tuple(processes))

    finding = last_verdict(unsized)
    assert (finding.id, finding.confidence) == ("A18", "likely")
    assert [fact.text for fact in finding.evidence[1:3]] == ["WORLD_SIZE is set in none of them", f"but {name} is 0, 1"]
    assert "no WORLD_SIZE" in finding.cause
    threads = (("pt_gloo_runloop", 2),)
    assert "A18" not in ids(play(lambda second: unsized(second, threads), 20)[-1]), "arguments may say how many they are"


def test_a18_is_at_most_possible_for_tasks_with_a_gpu_each():
    """srun may start a sweep whose tasks read their settings by SLURM_PROCID."""

    def spread(second):
        processes = tuple(
            single(4000 + n, use(n), second=second, launcher=Ancestor(3999, "srun"), ancestors=(Ancestor(3999, "srun"),))
            for n in range(4)
        )
        return scene(second, gpus(range(4), 4), processes)

    finding = last_verdict(spread)
    assert (finding.id, finding.confidence) == ("A18", "possible")
    assert finding.fix.startswith("srun --ntasks-per-node=1 torchrun --nproc-per-node=4 train.py")


@pytest.mark.parametrize("different", ["arguments", "start", "collectives"])
def test_a18_look_alikes(different):
    def look_alike(second):
        shot = placement.independent(second, (("pt_gloo_runloop", 1),) if different == "collectives" else ())
        processes = list(shot.processes)
        for n, process in enumerate(processes):
            if different == "arguments":
                processes[n] = replace(process, command=("python", "train.py", "--seed", str(n)))
            if different == "start":
                processes[n] = replace(process, started_at=samples.EPOCH - 600 + 60 * n)
        return replace(shot, processes=tuple(processes))

    assert "A18" not in {finding.id for findings in play(look_alike, 30) for finding in findings}


# ---- A19


def test_a19_shows_the_contexts_and_hides_that_ranks_share_gpus():
    doctor = Doctor()
    finding = play(placement.doubled, 40, doctor)[-1][0]
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert any("16 contexts of 4 ranks on 4 GPUs" in fact.text for fact in finding.evidence)
    assert [(item.id, item.suppressed_by) for item in doctor.suppressed] == [("A07", ("A19",))]
    assert "no nn.DataParallel" in finding.fix


def test_a19_is_certain_if_the_ranks_report_it():
    assert last_verdict(placement.doubled_by_its_word).confidence == "certain"


def test_a_launcher_that_python_runs_as_a_module_is_torchrun_in_a_command():
    words = ("/venv/bin/python", "-u", "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py", "--epochs", "3")

    def as_module(second):
        shot = placement.two_of_eight(second)
        return replace(shot, runs=(replace(shot.runs[0], command=words),))

    assert "torchrun --nproc-per-node=8 train.py --epochs 3" in last_verdict(as_module, 20).fix

    def launcher_alone(second):
        shot = placement.two_of_eight(second)
        processes = tuple(replace(process, command=words) for process in shot.processes)
        return replace(shot, runs=(replace(shot.runs[0], command=None),), processes=processes)

    assert "torchrun --nproc-per-node=8 train.py --epochs 3" in last_verdict(launcher_alone, 20).fix
