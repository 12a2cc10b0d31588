"""Memory, hardware and driver (catalogue H and I): each fault with its numbers, and GPUs at rest or at full load left alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence.device_history import DeviceHistory
from gputop.snapshot import LaunchEnvironment, Problem, Process
from tests import samples
from tests.doctor.scenes import hardware, placement
from tests.doctor.scenes.base import gpus, ids, journal, last_verdict, play, rank, scene, single, use, uuid
from tests.samples import EPOCH, GIB

INFORMATION = ("I08", "I09")


def texts(finding):
    return [fact.text for fact in finding.evidence]


@pytest.mark.parametrize(
    ("rule", "name", "fault", "seconds"), hardware.FAULTS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_each_fault_stands_first_and_alone(rule, name, fault, seconds):
    said = play(fault, seconds)
    assert ids(said[-1]) == [rule]
    assert all(ids(findings) in ([], [rule]) for findings in said)
    finding = said[-1][0]
    assert all(fact.source for fact in finding.evidence)
    assert finding.cause
    assert finding.fix
    assert (finding.severity == "info") is (rule in INFORMATION)


@pytest.mark.parametrize(
    ("name", "healthy", "seconds"), hardware.HEALTHY, ids=lambda part: part if isinstance(part, str) else ""
)
def test_look_alikes_are_left_alone(name, healthy, seconds):
    for second, findings in enumerate(play(healthy, seconds)):
        assert ids(findings) == [], f"at second {second}"


@pytest.mark.parametrize("fault", ["hot", "hot_without_counters", "limited", "braked", "capped_far_below", "narrow", "locked"])
def test_no_threshold_that_was_never_measured_calls_itself_certain(fault):
    for findings in play(getattr(hardware, fault), 45):
        assert all(finding.confidence in ("likely", "possible") for finding in findings)


# ---- H02


def test_h02_names_the_gpus_with_free_memory():
    finding = last_verdict(hardware.out_of_memory)
    assert finding.title == "GPU 0 ran out of memory, GPUs 1-3 had free memory"
    assert (finding.severity, finding.confidence, finding.devices) == ("error", "certain", (uuid(0),))
    assert "GPU 0 held up to 79.0 GiB of 80.0 GiB in the last minute" in texts(finding)
    assert "torch.cuda.set_device(local_rank)" in finding.fix


def test_h02_where_every_gpu_is_full_asks_for_less():
    finding = last_verdict(hardware.out_of_memory_everywhere)
    assert finding.title == "GPU 0 ran out of memory"
    assert "accumulate gradients" in finding.fix
    assert "it asked for 2.00 GiB" in finding.cause


def test_h02_reads_the_ordinal_as_the_rank_does():
    """The rank's GPU 0 is GPU 3 of the machine."""

    def masked(second):
        shot = hardware.out_of_memory(second + 10)
        facts = {"environment": {
            "cuda_visible_devices_launch": "3", "cuda_visible_devices_now": "3", "visible_uuids": [uuid(3)]}}  # fmt: skip
        ranks = tuple(replace(r, facts=facts) for r in shot.runs[0].ranks)
        return replace(shot, runs=(replace(shot.runs[0], ranks=ranks),))

    assert last_verdict(masked, 5).devices == (uuid(3),)


def test_h02_is_a_warning_if_the_run_continued():
    def caught(second):
        shot = hardware.training(second, samples.device(0))
        return replace(shot, logs=(placement.said("oom", hardware.OOM, rank=0),))

    assert last_verdict(caught).severity == "warning"


def test_h02_is_a_symptom_of_ranks_on_one_gpu():
    def both(second):
        shot = placement.ranks_on_gpu_0(second)
        return replace(shot, logs=(placement.said("oom", hardware.OOM, rank=0),) if second > 12 else ())

    doctor = Doctor()
    assert ids(play(both, 20, doctor)[-1]) == ["A07"]
    assert [(item.id, item.suppressed_by) for item in doctor.suppressed] == [("H02", ("A07",))]


# ---- H03


def test_h03_names_the_owner_and_free_gpus():
    def beside_free(second):
        shot = hardware.neighbour(second)
        return replace(shot, devices=(*shot.devices, samples.idle_device(4)))

    finding = last_verdict(beside_free)
    assert (finding.id, finding.severity) == ("H03", "warning")
    assert finding.title == "GPU 1 is shared with a job of bob"
    assert "process 7000 of bob (python): 20.0 GiB, 45% of the SMs" in texts(finding)
    assert finding.fix.startswith("CUDA_VISIBLE_DEVICES=0,2,3,4 torchrun --nproc-per-node=4 train.py")
    assert "ps -o pid,user,etime,args -p 7000" in finding.fix


@pytest.mark.parametrize(("sm", "gib", "severity"), [(2.0, 20.0, "info"), (8.0, 0.4, "info"), (60.0, 0.4, "warning")])
def test_h03_weighs_by_the_neighbours_share(sm, gib, severity):
    assert last_verdict(lambda second: hardware.neighbour(second, sm, gib)).severity == severity


@pytest.mark.parametrize(("sm", "gib"), [(2.0, 0.4), (0.0, 0.9)])
def test_h03_passes_over_small_neighbours(sm, gib):
    assert "H03" not in ids(play(lambda second: hardware.neighbour(second, sm, gib), 20)[-1])


def test_h03_abstains_where_the_neighbour_is_not_measured():
    doctor = Doctor()
    play(lambda second: hardware.neighbour(second, None, None), 10, doctor)
    assert "H03" in [item.rule for item in doctor.abstained]


def test_h03_is_reported_once_for_two_runs_of_one_user_on_one_gpu():
    def packed(second):
        runs = (single(4000, use(0, 20, 50), second=second, visible=1), single(4001, use(0, 20, 45), second=second, visible=1))
        return scene(second, gpus([0], 1), runs)

    said = play(packed, 20)
    assert [(finding.id, finding.severity) for finding in said[-1]] == [("H03", "info")]


def test_h03_names_runs_of_one_script_that_could_have_a_gpu_each():
    (finding,) = play(hardware.two_seeds, 40)[-1]
    assert (finding.id, finding.severity, finding.confidence) == ("H03", "warning", "certain")
    assert finding.title == "2 runs of train.py share GPU 0, and GPU 1 is free"
    assert finding.fix.startswith("CUDA_VISIBLE_DEVICES=1 python train.py --seed 0")


@pytest.mark.parametrize(("cards", "found"), [((None, None), {"H03"}), (("0", "1"), set())], ids=["no mask", "a card each"])
def test_h03_of_virtual_gpus_leaves_runs_alone_that_were_given_a_card_each(cards, found):
    """Virtual GPUs are no CUDA devices: which of them a run uses does not depend on CUDA_VISIBLE_DEVICES."""

    def seeds(second):
        shot = hardware.two_seeds(second)
        processes = tuple(
            replace(each, environment=LaunchEnvironment(virtual_devices="0,1", cuda_visible_devices=card))
            for each, card in zip(shot.processes, cards, strict=True)
        )
        return replace(shot, processes=processes, devices=tuple(replace(device, kind="virtual") for device in shot.devices))

    assert {item.id for item in play(seeds, 40)[-1]} == found


def test_h03_says_that_one_mask_keeps_runs_of_one_script_together():
    """A mistake in a shell script, or a choice: both runs were given the same GPU."""
    (finding,) = [item for item in play(lambda second: hardware.two_seeds(second, "0"), 40)[-1] if item.id == "H03"]
    assert (finding.id, finding.severity) == ("H03", "info")
    assert finding.title == "2 runs of train.py share GPU 0, and GPU 1 is free"
    assert finding.cause.endswith("All were started with CUDA_VISIBLE_DEVICES=0.")
    assert finding.fix.startswith("CUDA_VISIBLE_DEVICES=1 python train.py --seed 0")


def test_h03_blames_no_mask_that_only_one_of_the_runs_has():
    def seeds(second):
        shot = hardware.two_seeds(second, "0")
        first, other = shot.processes
        return replace(shot, processes=(first, replace(other, environment=LaunchEnvironment(cuda_visible_devices="0,1"))))

    said = [item for item in play(seeds, 40)[-1] if item.id == "H03"]
    assert said
    assert not any("All were started with" in item.cause for item in said)


@pytest.mark.parametrize("slurm", [False, True])
def test_h03_does_not_call_a_mask_a_choice_where_somebody_else_set_it(slurm):
    settings = (("SLURM_JOB_ID", "7"),) if slurm else ()
    environment = LaunchEnvironment(cuda_visible_devices="0", settings=settings)
    changes = {"environment": environment, "container": None if slurm else "docker"}
    said = play(lambda second: hardware.two_seeds(second, "0", **changes), 40)[-1]
    (finding,) = [item for item in said if item.id == "H03"]
    assert finding.title == "GPU 0 is shared with another job of yours"


@pytest.mark.parametrize(("mask", "free", "found"), [("0", True, ["info"]), ("0", False, []), ("0,1", True, ["warning"])])
def test_h03_of_virtual_gpus_names_runs_that_one_mask_keeps_together(mask, free, found):
    def seeds(second):
        shot = hardware.two_seeds(second, free=free)
        masked = LaunchEnvironment(virtual_devices=mask)
        processes = tuple(replace(each, environment=masked) for each in shot.processes)
        return replace(shot, processes=processes, devices=tuple(replace(device, kind="virtual") for device in shot.devices))

    assert [item.severity for item in play(seeds, 40)[-1] if item.id == "H03"] == found


@pytest.mark.parametrize("command", [("python", "train.py"), ("python", "-m", "lab.train")], ids=["script", "module"])
def test_h03_takes_what_one_program_has_forked_for_one_run(command):
    said = play(lambda second: hardware.two_seeds(second, command=command), 40)[-1]
    assert not any("are free" in item.title or "is free" in item.title for item in said)


# ---- H04


def test_h04_offers_the_pid_of_an_orphan():
    finding = last_verdict(hardware.orphan)
    assert finding.title == "Rank 2 of a dead job still holds GPU 2 (process 4002)"
    assert finding.confidence == "certain"
    assert "it holds 40.0 GiB on GPU 2" in texts(finding)
    assert finding.fix.startswith("kill 4002 ")


def test_h04_leaves_a_rank_whose_launcher_lives_alone():
    assert play(lambda second: replace(hardware.orphan(second), processes=(rank(2, use(2, 40, 0)),)), 20)[-1] == ()


def test_h04_of_memory_without_a_process_is_likely_and_waits_for_the_list():
    assert last_verdict(hardware.unexplained, 30).confidence == "likely"

    def noted(second):
        return replace(hardware.unexplained(second), notes=(Problem("no_permission", "The list is refused.", ""),))

    assert "H04" not in {finding.id for findings in play(noted, 30) for finding in findings}


# ---- H05


def test_h05_counts_kills_and_quotes_the_worker():
    finding = last_verdict(hardware.killed_for_memory)
    assert (finding.severity, finding.confidence, finding.run) == ("error", "certain", "run-1")
    assert any("ended 1 process" in text for text in texts(finding))
    assert any("killed by signal: Killed" in text for text in texts(finding))


def test_h05_of_little_memory_proposes_half_the_workers():
    finding = last_verdict(hardware.hardly_any_memory)
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert "num_workers=8" in finding.fix
    assert any("20.0 GiB of 1007.0 GiB" in text for text in texts(finding))


def test_h05_lays_no_kill_to_a_run_that_failed_of_something_else():
    def of_itself(second):
        shot = hardware.killed_for_memory(second)
        if second < 5:
            return shot
        return replace(shot, logs=(placement.said("exception", "ValueError: the end of the data"),))

    finding = next(item for item in play(of_itself, 15)[-1] if item.id == "H05")
    assert (finding.severity, finding.confidence, finding.run) == ("warning", "certain", None)


def test_h05_is_likely_for_a_worker_s_end_if_no_kills_are_counted():
    """As in a container whose cgroup does not count, or once the count is past."""

    def uncounted(second):
        return hardware.host(hardware.killed_for_memory(second), oom_kills=None)

    (finding,) = play(uncounted, 15)[-1]
    assert (finding.id, finding.confidence, finding.run) == ("H05", "likely", "run-1")
    (counted,) = play(hardware.killed_for_memory, 15)[-1]
    assert counted.confidence == "certain"


def test_h05_names_the_run_whose_rank_was_killed_silently():
    def by_its_code(second):
        shot = hardware.killed_for_memory(second)
        runs = tuple(replace(run, ranks=tuple(replace(r, exit_code=-9) for r in run.ranks)) for run in shot.runs)
        return shot if second < 5 else replace(shot, logs=(), runs=runs)

    finding = next(item for item in play(by_its_code, 15)[-1] if item.id == "H05")
    assert (finding.severity, finding.run) == ("error", "run-1")


def test_h05_is_nobodys_matter_on_an_idle_machine():
    def idle(second):
        return hardware.host(scene(second, gpus([])), oom_kills=second // 5, memory_available_bytes=GIB)

    assert play(idle, 20)[-1] == ()


# ---- I01, I02, I03, I07


def test_i01_shows_the_share_the_temperature_and_the_clocks_lost():
    finding = last_verdict(hardware.hot, 25)
    assert finding.title == "GPU 2 is throttled by heat: clocks 24% lower"
    assert "heat held the clocks down for 35% of the last minute, according to the driver's counter" in texts(finding)
    assert "88 °C, slows down at 87 °C" in texts(finding)
    assert finding.pids == (4002,)
    assert "sudo nvidia-smi -i 2 -pl 595" in finding.fix


def test_i01_is_information_where_the_clocks_stay():
    def high(second):
        return hardware.training(second, samples.device(2, throttle_thermal_sw_ns=int(second * 0.2e9), temperature_c=86.0))

    assert last_verdict(high, 25).severity == "info"


def test_i02_compares_the_limit_with_the_peers_and_is_information_where_all_are_lowered():
    finding = last_verdict(hardware.limited)
    assert finding.title == "GPU 1 may draw 400 W, its peers 700 W"
    assert finding.fix.startswith("sudo nvidia-smi -i 1 -pl 700")
    said = play(hardware.limited_on_purpose, 20)[-1]
    assert [(item.id, item.severity, item.title) for item in said] == [
        ("I02", "info", "GPU 0 may draw 500 W, by default 700 W")
    ]


def test_i03_is_reported_once_if_the_board_gives_every_card_fewer_lanes():
    assert last_verdict(hardware.narrow, 40).title == "GPU 2 has a PCIe link of x4; x16 is possible"
    assert "sudo lspci -vv -s 0000:03:00.0" in last_verdict(hardware.narrow, 40).fix

    def board(second):
        shot = hardware.training(second, samples.device(0))
        return replace(shot, devices=tuple(replace(device, pcie_width=8) for device in shot.devices))

    assert [(item.id, item.severity) for item in play(board, 40)[-1]] == [("I03", "info")]


def test_i07_speaks_of_all_gpus_at_once():
    def all_locked(second):
        shot = hardware.locked(second)
        return replace(shot, devices=tuple(replace(shot.devices[0], index=d.index, uuid=d.uuid) for d in shot.devices))

    said = play(all_locked, 25)[-1]
    assert [item.title for item in said] == ["Clocks of GPUs 0-3 are held 39% below the maximum"]
    assert said[0].fix.splitlines()[0] == "sudo nvidia-smi -i 0,1,2,3 -rgc"


def test_a_reset_counter_is_not_throttling():
    history = DeviceHistory()
    for second in range(30):
        counted = 5 * 10**9 + second * 10**9 if second < 15 else 0
        history.observe(hardware.training(second, samples.device(2, throttle_thermal_sw_ns=counted)))
    assert history.share_throttled(uuid(2), "thermal_ns") is None
    assert history.share_throttled(uuid(1), "thermal_ns") is None, "not counted"


# ---- I04, I05, I06, I09, I10


def test_i04_distinguishes_hardware_from_software():
    finding = last_verdict(hardware.memory_error, 10)
    assert finding.title == "GPU 1: Xid 94, contained uncorrected ECC error"
    assert "sudo nvidia-smi --gpu-reset -i 1" in finding.fix
    finding = last_verdict(hardware.illegal_access, 10)
    assert "software first" in finding.cause
    assert "compute-sanitizer torchrun" in finding.fix


def test_i04_blames_none_of_several_jobs():
    """Seen on an H200: the command of a healthy job stood in the fix, for an error of another one."""
    finding = next(found for found in play(hardware.illegal_access_of_one_of_several, 10)[-1] if found.id == "I04")
    assert (finding.severity, finding.pids, finding.run) == ("warning", (), None)
    assert finding.evidence[1].text.startswith("2 jobs are on this GPU: ")
    assert "train.py" not in finding.fix.replace("your_script.py", "")


def test_i04_of_the_application_is_over_after_five_minutes():
    doctor = Doctor()
    assert ids(play(hardware.illegal_access, 10, doctor)[-1]) == ["I04"]
    assert play(lambda second: hardware.illegal_access(10 + 30 * second), 15, doctor)[-1] == ()


def test_i04_counts_only_new_uncorrected_errors():
    assert "2 uncorrected memory errors since gputop started" in texts(last_verdict(hardware.uncorrected, 10))


def test_i04_of_rows_that_wait_for_a_reset():
    finding = last_verdict(lambda second: hardware.training(second, samples.device(1, remapped_rows_pending=True)), 5)
    assert (finding.id, finding.severity) == ("I04", "warning")


def test_i05_explains_the_xid_and_the_training_on_the_cpu():
    doctor = Doctor()
    finding = play(hardware.fallen_off, 15, doctor)[-1][0]
    assert finding.title == "GPU 3 is lost"
    assert "last Xid: 79" in texts(finding)
    assert [item.id for item in doctor.suppressed] == ["I04"]


def test_i05_disappears_when_the_gpu_is_back():
    def back(second):
        return hardware.vanished(second) if second < 20 else hardware.training(second, samples.device(0))

    said = play(back, 30)
    assert ids(said[19]) == ["I05"]
    assert said[-1] == ()


def test_i05_passes_over_mig_instances_that_were_taken_down():
    def fewer(second):
        return scene(second, placement.mig_devices(4 if second < 5 else 2))

    assert play(fewer, 30)[-1] == ()


def test_i06_is_a_warning_where_the_slow_card_is_measured():
    finding = last_verdict(hardware.mixed, 40)
    assert finding.severity == "warning"
    assert "rank 3 takes 31.0 ms for its forward pass, the others 20.0 ms" in texts(finding)
    assert f"CUDA_VISIBLE_DEVICES={uuid(0)},{uuid(1)},{uuid(2)} torchrun --nproc-per-node=3" in finding.fix
    assert last_verdict(lambda second: replace(hardware.mixed(second), points=()), 10).severity == "info"


def test_i09_only_while_a_job_starts():
    said = play(hardware.without_persistence, 90)
    assert [(item.id, item.confidence) for item in said[30]] == [("I09", "possible")]
    assert said[-1] == ()


def test_i10_shows_the_problem_with_its_hint_and_a_laptop_has_none():
    finding = last_verdict(hardware.mismatch, 3)
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert "different versions" in finding.title
    assert "reboot" in finding.fix
    assert last_verdict(hardware.laptop, 5) is None


def test_i10_of_one_gpu_that_does_not_answer():
    problem = Problem("hung", "GPU 1 has not answered for 12 s: a driver call hangs.", "Look for Xid lines in dmesg.")
    finding = last_verdict(lambda second: hardware.training(second, samples.device(1, state="stale", problem=problem)), 5)
    assert (finding.id, finding.devices) == ("I10", (uuid(1),))


def test_i10_of_a_note_is_only_possible():
    note = Problem("no_permission", "The driver does not let this user list the processes on GPU 0.", "Root can list them.")
    said = play(lambda second: replace(hardware.training(second, samples.device(0)), notes=(note,)), 10)[-1]
    assert [(item.id, item.confidence) for item in said] == [("I10", "possible")]


# ---- which hides which


def test_a_root_of_one_run_hides_nothing_of_another():
    def two(second):
        shot = placement.local_rank_refused(second)
        processes = tuple(
            replace(rank(n, use(0, 15, 24), world=2, second=second), pid=5000 + n, run_id="run-2") for n in range(2)
        )
        run = journal(2, second, run_id="run-2")
        run = replace(run, ranks=tuple(replace(r, pid=5000 + r.rank) for r in run.ranks))
        return replace(shot, processes=processes, runs=(*shot.runs, run), devices=gpus([0], 4))

    assert sorted(ids(play(two, 20)[-1])) == ["A07", "A17"]


# ---- nothing breaks


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_no_fault_with_missing_readings_breaks_the_doctor(share):
    from tests.doctor.test_diagnosis import with_holes

    for rule, _, fault, seconds in (*hardware.FAULTS, *placement.FAULTS):
        chance = random.Random(rule)
        doctor = Doctor()
        for second in range(min(seconds, 14)):
            for finding in doctor.observe(with_holes(fault(second), chance, share)):
                assert finding.title


def test_values_that_are_no_numbers_break_nothing():
    nan = float("nan")
    clocks = ("temperature_c", "sm_clock_mhz", "sm_clock_max_mhz")
    broken = dict.fromkeys((*clocks, "power_w", "power_limit_w", "power_default_limit_w"), nan)
    environment = LaunchEnvironment(cuda_visible_devices=",,;")
    odd = Process(4100, (use(0),), environment=environment, torch_mapped=True, started_at=nan, command=("python", "train.py"))

    def scene_of(second):
        changed = samples.device(0, throttle_thermal_sw_ns=second * 10**9, xid_errors=((nan, 31), (EPOCH, 999)), **broken)
        shot = hardware.training(second, changed)
        return replace(shot, processes=(*shot.processes, odd, replace(odd, pid=4101)))

    assert "I04" in ids(play(scene_of, 15)[-1])
