"""Jobs that stand still, and those that only seem to: each is named by what it waits for, the others are left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence import stacks
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.facts.ddp import standstill
from gputop.facts.standing import Stalled
from gputop.snapshot import Communicator, CommunicatorRank, Snapshot, Workers
from tests import samples
from tests.doctor.scenes.base import Scene, check_first_verdict, gpus, ids, play, use, verdict
from tests.doctor.scenes.hangs import (
    FAULTS,
    HEALTHY,
    WORKS_S,
    all_in_a_barrier,
    all_poll,
    all_receive,
    all_send,
    behind_by_torch,
    breakpoint_on_one,
    counted,
    in_a_debugger,
    learns_in_turns,
    may_all_wait,
    may_compile,
    may_differ,
    may_evaluate,
    may_load,
    may_wait_for_rank_2,
    may_work,
    may_write,
    met_over_gloo,
    mute_by_torch,
    no_backward_threads,
    no_batch,
    none_begins,
    one_dead_by_nccl,
    one_not_entered,
    one_rests_while_all_poll,
    printing,
    rank_0_tests,
    silent_rank,
    small_kernels,
    stands,
    stops_after_work,
    surely_waits_for_rank_2,
    suspended_alone,
    traced,
    waits_for_a_save,
    waits_for_an_idle_rank,
    waits_for_the_cpu,
    young_and_reading,
    young_and_waiting,
)
from tests.doctor.scenes.pace import suspended


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[f"{row[0]}-{row[1]}" for row in FAULTS])
def test_a_standstill_is_the_first_verdict(rule: str, name: str, scene: Scene, seconds: int) -> None:
    assert check_first_verdict(rule, scene, seconds).severity in ("error", "warning")


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_runs_that_only_seem_to_stand_still_are_left_alone(name: str, scene: Scene, seconds: int) -> None:
    for second, found in enumerate(play(scene, seconds)):
        assert [item.id for item in found if item.confidence != "possible"] == [], second


def test_nccl_names_the_rank_that_is_behind_its_process_and_its_gpu() -> None:
    finding = verdict(one_not_entered, 50)
    assert finding.confidence == "certain"
    assert finding.title == "The training hangs: ranks 0, 1, 3 wait in AllReduce for rank 2"
    assert finding.pids == (4002,)
    assert finding.devices == (samples.device(2).uuid,)
    assert "fewer AllReduce operations than ranks 0, 1, 3 (500)" in finding.evidence[0].text
    assert "py-spy dump --pid 4002" in finding.fix


def test_torchs_counts_name_the_rank_that_is_behind_and_its_line() -> None:
    finding = verdict(behind_by_torch, 40)
    assert finding.confidence == "certain"
    assert finding.title == "The training hangs: ranks 0, 1, 3 wait in the exchange of gradients for rank 2"
    assert finding.pids == (4002,)
    said = " ".join(fact.text for fact in finding.evidence)
    assert "rank 2 has begun 499 collective operations and ranks 0, 1, 3 500" in said
    assert "rank 2 is at train.py:44 in report" in said
    assert f"gputop where {behind_by_torch(0).runs[0].run_id}" in finding.fix
    mute = verdict(mute_by_torch, 40)
    assert (mute.title, mute.confidence) == (finding.title, "certain")
    assert "rank 2 has not reported where it is for 3" in " ".join(fact.text for fact in mute.evidence)


def test_from_outside_a_rank_whose_gpu_idles_is_named_and_one_that_works_is_possible_only() -> None:
    finding = verdict(waits_for_an_idle_rank, 110)
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert finding.title == "The training seems to hang: ranks 0, 1, 3 wait for rank 2, whose GPU idles"
    assert (finding.pids, finding.devices) == ((4002,), (samples.device(2).uuid,))
    assert "py-spy dump --pid 4002" in finding.fix
    assert any("not tracked" in fact.text for fact in finding.evidence)
    works = verdict(waits_for_the_cpu, 110)
    assert (works.id, works.severity, works.confidence) == ("G01", "warning", "possible")
    assert "G01" not in ids(play(waits_for_a_save, 110)[-1])


def test_from_outside_ranks_that_all_poll_hang_if_no_backward_runs() -> None:
    """Small kernels look alike, but there the backward threads use a processor, and nothing above possible is said."""
    finding = verdict(all_poll, 110)
    assert (finding.id, finding.severity, finding.confidence) == ("G01", "error", "likely")
    assert any("no rank's backward threads have used a CPU" in fact.text for fact in finding.evidence)
    told = [[item.confidence for item in found if item.id == "G01"] for found in play(all_poll, 110)]
    assert 60 <= next(second for second, levels in enumerate(told) if levels) <= 80, "one minute shows it, not two"
    named = verdict(one_rests_while_all_poll, 110)
    assert "py-spy dump --pid 4002" in named.fix
    assert any("only process 4002 (rank 2) uses no CPU" in fact.text for fact in named.evidence)
    assert [item.confidence for item in play(small_kernels, 110)[-1] if item.id == "G01"] == ["possible"]
    assert [item.confidence for item in play(no_backward_threads, 110)[-1] if item.id == "G01"] == ["possible"]


def test_the_power_of_a_small_card_falls_when_it_only_polls() -> None:
    """30 W are 42% of the limit of 72 W, and less than half of the power at work: no share of a limit fits all cards."""
    (found,) = (item for item in play(stops_after_work(), WORKS_S + 140)[-1] if item.id == "G01")
    assert (found.confidence, found.title) == (
        "possible",
        "The training may hang: all GPUs spin at low power, and none moves data",
    )
    assert any("draws 42% of its limit, after 94% at work" in fact.text for fact in found.evidence)


@pytest.mark.parametrize(
    "scene",
    [
        stops_after_work(watts=50.0),
        stops_after_work(memory=20.0),
        lambda second: stops_after_work()(second + WORKS_S),
        printing(stops_after_work(), until=10**6),
    ],
    ids=["less power", "data moves", "never drew more", "prints losses"],
)
def test_gpus_that_work_with_less_power_do_not_hang(scene: Scene) -> None:
    assert "G01" not in ids(play(scene, WORKS_S + 140)[-1])


def test_ranks_that_poll_and_print_nothing_any_more_hang() -> None:
    (found,) = (item for item in play(printing(stops_after_work(), until=WORKS_S), WORKS_S + 100)[-1] if item.id == "G01")
    assert (found.confidence, found.run) == ("likely", None)
    assert any("no step has been logged for" in fact.text for fact in found.evidence)


def test_the_only_rank_of_a_machine_may_poll_for_those_of_others() -> None:
    (found,) = (item for item in play(stops_after_work(ranks=[1]), WORKS_S + 140)[-1] if item.id == "G01")
    assert found.title == "The training may hang: all GPUs of this machine spin at low power, and none moves data"
    assert found.pids == (4001,)


def test_counts_prove_nothing_until_three_queries_agree() -> None:
    said = play(one_not_entered, 30)
    first = next(second for second, found in enumerate(said) if "G01" in ids(found))
    assert 20 <= first <= 25
    evidence = Evidence()
    for second in range(30):
        evidence.observe(counted(5, 5, moving=True)(second))
    (item,) = evidence.snapshot.communicators if evidence.snapshot is not None else ()
    assert evidence.still.counts_s(item) == 0.0


def test_ranks_in_different_operations_are_not_blamed_on_one_that_is_behind() -> None:
    def crossed(second: int):
        base = one_not_entered(second)
        counts = ({"AllReduce": 5, "AllGather": 1}, {"AllReduce": 4, "AllGather": 2})
        ranks = tuple(CommunicatorRank(n, 4000 + n, "node7", n, "running", None, said) for n, said in enumerate(counts))
        return replace(base, communicators=(Communicator("c", 2, ranks),))

    assert "C08" in ids(play(crossed, 60)[-1])
    assert not any("behind" in item.title for item in play(crossed, 60)[-1])


def test_nccl_names_a_dead_rank_and_its_ended_process() -> None:
    finding = verdict(one_dead_by_nccl, 30)
    assert (finding.title, finding.confidence) == ("Rank 2 died, the others wait", "certain")
    assert any("process 4002 no longer exists" in fact.text for fact in finding.evidence)
    assert finding.pids == (4000, 4001, 4003)


def test_a_stopped_process_is_named_with_the_command_that_continues_it() -> None:
    only, held = verdict(suspended_alone, 44), verdict(traced, 20)
    assert (only.severity, only.confidence, only.fix) == ("warning", "certain", "kill -CONT 4000")
    assert only.title == "train.py (process 4000) is stopped: the training hangs"
    assert held.title == "Rank 1 is stopped: the training hangs"
    assert "gdb" in held.cause
    assert "kill -CONT" not in held.fix


@pytest.mark.parametrize(
    ("changes", "shares"),
    [({}, True), ({"state": "T", "cpu_percent": 0.0}, False), ({"devices": (use(1),)}, False)],
    ids=["works", "is stopped, too", "uses another GPU"],
)
def test_a_run_that_is_stopped_while_another_one_uses_its_gpu_may_take_turns(changes: dict[str, Any], shares: bool) -> None:
    def beside_another(second: int) -> Snapshot:
        base = suspended_alone(second)
        (process,) = base.processes
        other = replace(process, pid=4100, ppid=4099, run_id=None, state="R", cpu_percent=90.0, command=("python", "theirs.py"))
        devices = (*base.devices, *gpus([], 2)[len(base.devices) :])
        return replace(base, devices=devices, processes=(process, replace(other, **changes)))

    finding = next(item for item in play(beside_another, 44)[-1] if item.pids == (4000,))
    assert (finding.id, finding.severity, finding.confidence) == (
        "G01",
        *(("info", "possible") if shares else ("warning", "certain")),
    )
    assert finding.fix == "kill -CONT 4000"
    words = ", while another run uses its devices" if shares else ": the training hangs"
    assert finding.title == f"train.py (process 4000) is stopped{words}"


def stopped(state: str = "T", when: Callable[[int], bool] = lambda second: second >= 10, **other: Any) -> Scene:
    """A run that is stopped, by default from its second 10 on, beside another one of which this is known, if anything."""

    def scene(second: int) -> Snapshot:
        base = (suspended_alone if when(second) else stands("other", "train.py:77 main"))(second)
        (process,) = base.processes
        process = replace(process, state=state) if when(second) else process
        theirs = replace(
            process, pid=4100, ppid=4099, run_id=None, state="R", cpu_percent=90.0, command=("python", "theirs.py")
        )
        return replace(base, processes=(process, replace(theirs, **other)) if other else (process,))

    return scene


def beside_one_that_is_stopped(second: int) -> Snapshot:
    first, other = stopped(devices=())(second).processes
    return replace(stopped()(second), processes=(first, replace(other, state="T", cpu_percent=0.0)))


def certain_after_s(scene: Scene, seconds: int = 150) -> list[float]:
    """After how many seconds in this state it was first said, in any way and for certain."""
    said = [next((item for item in found if item.pids == (4000,)), None) for found in play(scene, seconds)]
    seen = [
        (second, item.confidence) for second, item in enumerate(said, -10) if item is not None and "is stopped" in item.title
    ]
    return [
        next((second for second, level in seen if level in levels), 999) for levels in ({"possible", "certain"}, {"certain"})
    ]


def test_a_run_that_is_stopped_is_possible_at_once_and_certain_once_it_was_no_turn_of_another() -> None:
    """Of two jobs that share a GPU in turns, the other one uses no device before it has imported torch."""
    assert certain_after_s(stopped()) == [2, 42]
    assert certain_after_s(stopped(devices=())) == [2, 122]
    assert certain_after_s(stopped(devices=(use(1),))) == [2, 42], "it uses another GPU"
    assert certain_after_s(stopped(devices=(use(0),))) == [2, 999]
    assert certain_after_s(stopped("t")) == [2, 2], "no scheduler is a debugger"
    assert certain_after_s(beside_one_that_is_stopped) == [2, 42]
    finding = next(item for item in play(stopped(), 30)[-1] if item.pids == (4000,))
    assert (finding.title, finding.severity) == ("train.py (process 4000) is stopped: the training may hang", "warning")
    assert "A scheduler that shares devices in turns" in finding.cause


def test_one_that_is_stopped_again_and_again_takes_turns() -> None:
    assert certain_after_s(stopped(when=lambda second: second % 40 >= 10), 200) == [2, 999]


def test_one_rank_that_is_stopped_hangs_its_run_whoever_else_uses_its_gpu() -> None:
    def beside_another(second: int) -> Snapshot:
        base = suspended(second)
        untracked: dict[str, Any] = {"run_id": None, "rank": None, "launcher": None, "ancestors": (), "environment": None}
        other = replace(base.processes[1], pid=4100, ppid=4099, state="R", cpu_percent=90.0, **untracked)
        return replace(base, processes=(*base.processes, other))

    assert {(item.severity, item.confidence) for item in play(beside_another, 20)[-1] if "is stopped" in item.title} == {
        ("error", "certain")
    }


def test_a_process_that_was_just_stopped_is_named_after_three_readings_without_cpu() -> None:
    def stops(second: int) -> Snapshot:
        if second < 10:
            return stands("other", "train.py:77 main")(second)
        base = suspended_alone(second)
        used = 60.0 if second == 10 else 0.0  # since the reading before
        return replace(base, processes=tuple(replace(process, cpu_percent=used) for process in base.processes))

    said = play(stops, 20)
    named = [second for second, findings in enumerate(said) if any("is stopped" in item.title for item in findings)]
    assert named[0] == 13
    assert named[-1] == 19


def test_a_debugger_is_called_one() -> None:
    assert verdict(breakpoint_on_one, 20).title == "The training waits for rank 2, which is in a debugger"
    alone = verdict(in_a_debugger, 20)
    assert (alone.severity, alone.confidence) == ("info", "certain")
    assert alone.fix.startswith("PYTHONBREAKPOINT=0 ")


def test_a_rank_that_says_nothing_is_waited_for_a_minute_before_it_is_named() -> None:
    said = play(silent_rank, 90)
    assert all(not found for found in said[:60])
    assert said[-1][0].pids == (4003,)
    assert "its Python code is not running" in " ".join(fact.text for fact in said[-1][0].evidence)


def test_the_fix_for_a_missing_batch_looks_into_the_worker() -> None:
    assert "py-spy dump --pid 5001" in verdict(no_batch, 20).fix
    finding = verdict(none_begins, 60)
    assert finding.confidence == "likely"
    assert "torchrun" in finding.fix


def test_stacks_are_read_for_what_they_mean() -> None:
    def at(phase: str, *stack: str) -> Stalled:
        return Stalled({"step": 5, "phase": phase, "stack": stack})

    assert stacks.communicates(at("other", "distributed_c10d.py:5356 barrier", "train.py:3 main"))
    assert not stacks.communicates(at("other", "train.py:3 main"))
    assert stacks.pauses(at("other", "train.py:3 validate_epoch"))
    assert not stacks.pauses(at("other", "train.py:3 test_that_trains"))
    assert not stacks.compiles(at("forward", "compile_fx.py:900 run", "eval_frame.py:4 _fn"))
    assert stacks.rests(None, at("other"))
    assert not stacks.rests(None, at("backward"))


def test_waiting_for_a_disk_is_counted_over_a_minute() -> None:
    evidence = Evidence()
    process = replace(samples.rank_process(0, (), 1), read_bytes=0, workers=Workers(4, 10.0, 0, 8))
    for second in range(60):
        blocked = 2 if second % 2 else 0
        now = replace(process, workers=Workers(4, 10.0, blocked, 8), read_bytes=30_000_000 * min(second, 40))
        evidence.observe(samples.snapshot(second, processes=(now,), runs=(), points=()))
    assert evidence.still.waits_for_disk(process) == pytest.approx(0.25)
    assert evidence.still.disks_s(process) == pytest.approx(19.0)
    assert evidence.still.disks_s(replace(process, pid=1)) == float("inf")


def test_a_rank_that_evaluates_for_over_a_minute_may_have_left_the_loop() -> None:
    """Early stopping on one rank: it predicts from then on, and the others wait in their next backward."""
    assert not play(rank_0_tests, 55)[-1]
    (finding,) = play(rank_0_tests, 80)[-1]
    assert (finding.id, finding.confidence, finding.severity) == ("G01", "possible", "warning")
    assert finding.title.startswith("All ranks wait for rank 0, which has been elsewhere for 1m")
    assert finding.pids


def test_a_pause_is_no_longer_than_usual_if_another_one_was() -> None:
    """The longest step so far took half a minute: a pause three times as long is not over yet."""

    def scene(second: int) -> Snapshot:
        shot = rank_0_tests(second)
        if second >= 40:
            return shot
        (run,) = shot.runs
        ranks = tuple(replace(rank, step=100 + (second >= 35), facts={}) for rank in run.ranks)
        return replace(shot, runs=(replace(run, ranks=ranks),))

    assert not play(scene, 85)[-1]


def test_the_first_report_of_a_standstill_is_possible_and_names_the_rank() -> None:
    for second, found in enumerate(play(may_wait_for_rank_2, 12)):
        assert [(item.id, item.confidence) for item in found] == ([("G01", "possible")] if second > 1 else []), second
    assert verdict(may_wait_for_rank_2, 12).title == "All ranks wait for rank 2, which does nothing"


def test_a_second_report_turns_the_first_into_an_alarm() -> None:
    said = [play(may_wait_for_rank_2, 8), play(surely_waits_for_rank_2, 8)]
    doctor = Doctor()
    both = [
        *play(may_wait_for_rank_2, 8, doctor),
        *play(surely_waits_for_rank_2, 8, doctor, start=8),
    ]
    assert [found[0].confidence for found in both if found] == ["possible"] * 6 + ["possible"] * 3 + ["likely"] * 5
    assert [found[0].confidence for found in said[1] if found] == ["likely"] * 5


def test_first_reports_from_different_collectives_are_possible() -> None:
    found = verdict(may_differ, 12)
    assert (found.id, found.confidence, found.severity) == ("C08", "possible", "warning")
    assert "took a different path" in found.title


@pytest.mark.parametrize(
    "scene",
    [may_evaluate, may_compile, may_load, may_work, may_all_wait, may_write],
    ids=["evaluates", "compiles", "loads", "works", "no rank stands out", "writes"],
)
def test_a_first_report_is_not_a_standstill_if_a_rank_is_busy(scene: Scene) -> None:
    assert all(not found for found in play(scene, 20))


def test_ranks_that_never_begin_are_possible_soon_and_likely_as_late_as_before() -> None:
    said = play(young_and_waiting, 60)
    levels = [found[0].confidence if found else None for found in said]
    assert all(found[0].id == "G03" for found in said if found)
    assert levels.index("possible") <= 15
    assert levels.index("likely") >= 38


def test_ranks_that_have_met_and_worked_and_rest_may_hang() -> None:
    """From outside, without a GPU that polls: they are not ranks that never began (G03)."""
    for scene in (met_over_gloo(15), met_over_gloo(0, backward_s=5.0)):
        said = play(scene, 130)
        assert {(finding.id, finding.confidence) for found in said for finding in found} == {("G01", "possible")}
        assert "no rank computes any more" in said[-1][0].title


def test_learners_that_wait_for_rollouts_do_not_hang() -> None:
    """What a group came back from, it may come back from again; a server of the same user may work for it."""
    for scene in (learns_in_turns(60, 60), learns_in_turns(20, 200, server=True)):
        assert all(not found for found in play(scene, 300))


def test_learners_that_rest_for_much_longer_than_before_may_hang() -> None:
    said = play(learns_in_turns(40, 40, until_s=120), 340)
    told = [second for second, found in enumerate(said) if found]
    assert told[0] > 120 + 3 * 39
    assert (said[-1][0].id, said[-1][0].confidence) == ("G01", "possible")


@pytest.mark.parametrize(
    "scene",
    [met_over_gloo(0), met_over_gloo(15, rank_0_cpu_percent=100.0), met_over_gloo(60)],
    ids=["nobody saw them work", "one works on", "they have just stopped"],
)
def test_ranks_that_have_met_and_may_have_their_reasons_are_left_alone(scene: Scene) -> None:
    assert all(not found for found in play(scene, 70))


def test_a_rank_that_reads_for_long_at_its_start_is_left_alone() -> None:
    assert all(not found for found in play(young_and_reading, 40))


@pytest.mark.parametrize(
    ("scene", "title", "line", "fix"),
    [
        (all_send, "The training hangs: all ranks send, and none receives", "halos.py:16 trade", "dist.batch_isend_irecv"),
        (all_receive, "The training hangs: all ranks wait to receive, and none sends", "halos.py:17 trade", "dist.send"),
    ],
)
def test_ranks_that_all_send_or_all_receive_wait_for_each_other(scene: Scene, title: str, line: str, fix: str) -> None:
    finding = play(scene, 60)[-1][0]
    assert (finding.id, finding.title, finding.confidence) == ("G01", title, "likely")
    assert all(line in fact.text for fact in finding.evidence if fact.text.startswith("rank "))
    assert fix in finding.fix


def test_ranks_in_one_barrier_do_not_exchange_data() -> None:
    finding = play(all_in_a_barrier, 60)[-1][0]
    assert finding.title == "The training hangs: no rank completes a step"
    assert any("train.py:80 test" in fact.text for fact in finding.evidence)


def logging_on(scene: Scene, rank: int, until: int = 1000, every: int = 5) -> Scene:
    """The same, as automatic tracking sees it; one rank of the script logs on, with the same step again and again."""

    def logs(second: int) -> Snapshot:
        shot = scene(second)
        (run,) = shot.runs
        now, last = samples.EPOCH + second, samples.EPOCH + min(second, until) // every * every
        ranks = []
        for item in run.ranks:
            said = item.facts.get("stalled")
            facts = {**item.facts, **({"stalled": {**said, "since": samples.EPOCH, "at": now}} if said and second else {})}
            logged = last if item.rank == rank else samples.EPOCH
            ranks.append(replace(item, facts=facts, last_log_at=logged))
        return replace(shot, runs=(replace(run, ranks=tuple(ranks)),))

    return logs


@pytest.mark.parametrize("scene", [no_batch, all_send, may_wait_for_rank_2, silent_rank])
def test_a_run_that_logs_on_does_not_stand_still(scene: Scene) -> None:
    """Automatic tracking may have lost the steps of a script that trains in a way of its own."""
    assert "G01" not in {item.id for found in play(logging_on(scene, 0), 120)[20:] for item in found}


def test_a_rank_that_logs_no_more_is_stuck_after_all() -> None:
    found = [ids(found) for found in play(logging_on(all_send, 0, until=30), 90)]
    assert "G01" not in found[44]
    assert found[-1][:1] == ["G01"]


@pytest.mark.parametrize("scene", [no_batch, all_send, may_wait_for_rank_2, silent_rank])
def test_what_another_thread_logs_does_not_hide_that_a_run_stands_still(scene: Scene) -> None:
    def beside(second: int) -> Snapshot:
        shot = logging_on(scene, 0)(second)
        (run,) = shot.runs
        return replace(shot, runs=(replace(run, ranks=tuple(replace(r, last_step_at=samples.EPOCH) for r in run.ranks)),))

    assert "G01" in ids(play(beside, 120)[-1])


def test_a_rank_that_logs_on_has_no_standstill_of_its_own() -> None:
    (run,) = logging_on(all_send, 0)(60).runs
    stands = {rank.rank: standstill(rank) is not None for rank in run.ranks if "stalled" in rank.facts}
    assert stands.pop(0) is False
    assert stands
    assert all(stands.values())


def test_a_single_process_that_completes_no_step_hangs_and_may_hang_if_no_more_steps_may_follow() -> None:
    surely, maybe = (verdict(stands(phase, "train.py:9 step", "train.py:30 main"), 20) for phase in ("forward", "other"))
    assert (surely.title, surely.confidence) == ("The training hangs", "likely")
    assert (maybe.title, maybe.confidence) == ("The training may hang", "possible")
