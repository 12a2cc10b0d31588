"""Ranks that end before the others: who is to blame, who waits, and who goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.doctor.findings.reaching import from_afar
from gputop.snapshot import LaunchEnvironment, LogMatch, ProcessRun, Snapshot
from tests.doctor.scenes.base import Scene, check_first_verdict, first_seen, ids, play, verdict
from tests.doctor.scenes.lost import (
    BACKWARD,
    DIED_AT,
    FAULTS,
    HEALTHY,
    a_task_fails,
    a_task_is_killed,
    ended_by_their_launchers,
    ends,
    finished_early,
    leaves_and_others_wait,
    leaves_by_nccl,
    leaves_the_loop,
    leaves_well,
    left_and_others_lost_it,
    left_by_exit,
    loses_another_and_others_wait,
    raises_and_others_wait,
    stands,
    without_a_group,
)
from tests.doctor.scenes.near.starts import by_command, node_by_command
from tests.doctor.tracked import ddp, failed


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_lost_rank_is_the_first_verdict(rule: str, name: str, scene: Scene, seconds: int) -> None:
    check_first_verdict(rule, scene, seconds)


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_independent_tasks_are_left_alone(name: str, scene: Scene, seconds: int) -> None:
    for second, found in enumerate(play(scene, seconds)):
        assert [(item.id, item.title) for item in found if item.confidence != "possible"] == [], second


PEER = ("gloo_peer", "RuntimeError: Connection closed by peer [10.0.0.2]:22467", 1, True)
REPORT = ("child_failed", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", None, True)
OWN = ("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory.", 1, False)


def ended_here(*texts: tuple[str, str, int | None, bool], world_size: int = 2) -> Scene:
    """A launch over hosts, of which this one has rank 1 alone: it failed, and printed these texts."""

    def scene(second: int) -> Snapshot:
        base = ddp(second, frozen=True)
        (run,) = base.runs
        rank = replace(run.ranks[1], state="failed", exit_code=1, world_size=world_size)
        logs = tuple(
            LogMatch(name, "G04", line, "run-1", "job-1", number, "out.log", 9, cascade=cascade, job_state="failed")
            for name, line, number, cascade in texts
        )
        ended = replace(run, state="failed", world_size=world_size, ranks=(rank,))
        return replace(base, runs=(ended,), processes=(), logs=logs)

    return scene


def test_the_only_rank_of_this_machine_lost_one_of_another() -> None:
    found = list(play(ended_here(PEER, REPORT), 20))[-1]
    (finding,) = (item for item in found if item.id == "G04")
    assert finding.title == "Rank 1 lost the connection to a rank that had left or died, and the run ended"
    assert (finding.severity, finding.confidence, finding.run) == ("error", "likely", "run-1")
    said = "# rank 0 runs on another machine, whose output says more: read it there\n"
    assert finding.fix.startswith(said), "no command reads the output of what gputop did not start"


def test_the_output_of_a_launch_is_read_with_a_command_that_needs_no_word_filled_in() -> None:
    def launched(second: int) -> Snapshot:
        base = ended_here(PEER, REPORT)(second)
        (run,) = base.runs
        return replace(base, runs=(replace(run, job_id="run-1-n1"),))

    (finding,) = (item for item in list(play(launched, 20))[-1] if item.id == "G04")
    assert finding.fix.startswith("# rank 0 runs on another machine, whose output says more; there:\ngputop logs run-1\n")
    hosts, reach = ["gpu1", "gpu2"], lambda hosts: f"-H {','.join(hosts)} --via 'ssh -F lab {{host}}'"
    told = from_afar(finding, "gpu2", hosts, reach)
    assert "gputop logs -H gpu1,gpu2 --via 'ssh -F lab {host}' run-1\n" in told.fix
    own = from_afar(replace(finding, fix="gputop logs job-1  # its last output"), "gpu2", hosts, reach)
    assert own.fix == "gputop logs -H gpu2 --via 'ssh -F lab {host}' job-1  # its last output"


def test_a_command_to_copy_runs_nothing_that_an_id_holds() -> None:
    """A run's id may come from another machine."""
    evil = "$(touch here)"

    def launched(second: int) -> Snapshot:
        base = ended_here(PEER, REPORT)(second)
        (run,) = base.runs
        logs = tuple(replace(match, run_id=evil) for match in base.logs)
        return replace(base, runs=(replace(run, run_id=evil, job_id=evil, command=("python", evil)),), logs=logs)

    (finding,) = (item for item in list(play(launched, 20))[-1] if item.id == "G04")
    hosts = ["gpu1", "gpu2"]
    told = from_afar(finding, "gpu2", hosts, lambda hosts: f"-H {','.join(hosts)}")
    assert "\ngputop logs -H gpu1,gpu2 '$(touch here)'\n" in told.fix

    def killed(second: int) -> Snapshot:
        base = leaves_and_others_wait(second)
        (run,) = base.runs
        return replace(base, runs=(replace(run, job_id=evil, command=("python", evil)),), processes=())

    (finding,) = (item for item in list(play(killed, 40))[-1] if item.id == "G04")
    start = f"torchrun --standalone --nproc-per-node=2 '{evil}'"
    assert finding.fix == f"gputop logs '{evil}'  # its last output: rank 1 left by itself, with exit code 1\n{start}"


@pytest.mark.parametrize(
    "scene",
    [ended_here(PEER, REPORT, OWN), ended_here(REPORT), ended_here(PEER, REPORT, world_size=1)],
    ids=["an error of its own", "no word of a peer", "no other rank"],
)
def test_a_rank_with_another_end_lost_no_other(scene: Scene) -> None:
    assert "lost the connection" not in " ".join(item.title for found in play(scene, 20) for item in found)


@pytest.mark.parametrize("scene", [a_task_fails, a_task_is_killed])
def test_no_rank_waits_for_a_task_of_a_sweep(scene: Scene) -> None:
    for found in play(scene, 60):
        assert all(item.severity == "info" and item.confidence != "certain" for item in found if item.id == "G04")
    finding = verdict(scene, 60)
    assert finding.title.endswith("the others continue without it")
    assert "ranks 0, 2 go on: steps advance" in [fact.text for fact in finding.evidence]


def test_ranks_that_stand_still_are_reported_as_waiting() -> None:
    finding = verdict(leaves_and_others_wait, 40)
    assert finding.title == "Rank 1 failed (exit code 1), the others wait for it"
    assert (finding.severity, finding.confidence) == ("error", "certain")
    first = first_seen(play(leaves_and_others_wait, 40), "G04")
    assert first is not None
    assert first - DIED_AT <= 15


@pytest.mark.parametrize(
    ("scene", "title"),
    [
        (loses_another_and_others_wait, "Rank 1 failed (exit code 1), the others wait for it; the first cause was not seen"),
        (ended_by_their_launchers, "Rank 0 was ended by SIGTERM, and the run with it; the first cause was not seen"),
    ],
)
def test_a_rank_that_failed_only_after_another_is_not_the_first_cause(scene: Scene, title: str) -> None:
    """As over hosts: the node on which the first rank died is gone, and with it what it recorded."""
    finding = verdict(scene, 40)
    assert (finding.id, finding.severity, finding.confidence) == ("G04", "error", "likely")
    assert finding.title == title
    assert "follows from the end of another rank" in " ".join(fact.text for fact in finding.evidence)
    assert "train.py:60" not in finding.fix, "nothing is wrong there"
    assert "dmesg" not in finding.fix


def test_a_lost_rank_that_fails_where_ranks_of_other_machines_are_not_seen_points_there() -> None:
    def larger(second: int) -> Snapshot:
        base = loses_another_and_others_wait(second)
        return replace(base, runs=tuple(replace(run, world_size=8) for run in base.runs))

    finding = verdict(larger, 40)
    assert finding.title.endswith("the first cause was not seen")
    assert finding.fix.startswith("# ranks 3-7 run on other machines, whose output says more: read it there\n")


def test_the_fix_is_of_what_ended_the_rank() -> None:
    raised, left = verdict(raises_and_others_wait, 40).fix, verdict(leaves_and_others_wait, 40).fix
    assert raised.startswith("# fix train.py:12 first")
    assert "dmesg" not in raised + left
    assert "exit code 1" in left
    assert "dmesg" in verdict(a_task_is_killed, 40).fix


@pytest.mark.parametrize("scene", [left_by_exit, left_and_others_lost_it])
def test_the_rank_that_left_has_the_blame_and_not_those_that_its_launcher_ended(scene: Scene) -> None:
    finding = verdict(scene, 20)
    assert finding.title == "Rank 1 failed (exit code 1), and the run with it"
    assert "ranks 0, 2 ended after it, so their errors are a consequence" in [fact.text for fact in finding.evidence]


def test_a_rank_that_left_its_loop_is_named_and_the_standstill_is_explained_by_it() -> None:
    doctor = Doctor()
    said = play(leaves_the_loop, 60, doctor)
    finding = said[-1][0]
    assert finding.title == "Rank 1 ended before the others, which wait for it"
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert ids(said[-1]) == ["G04"]
    assert [item.id for item in doctor.suppressed if "G04" in item.suppressed_by] == ["G01"]
    texts = [fact.text for fact in finding.evidence]
    assert "rank 1 has finished without an error, at step 130" in texts
    assert "rank 0 has waited since step 130 in graph.py:841 _engine_run_backward" in texts
    assert "all_reduce(stop" in finding.fix
    first = first_seen(said, "G04")
    assert first is not None
    assert first - DIED_AT <= 15, "by the ranks' first words"
    assert (said[first][0].confidence, said[first][0].severity) == ("possible", "warning")
    assert "which may wait for it" in said[first][0].title


def test_a_rank_that_finished_its_run_and_lives_may_still_come() -> None:
    def lives(second: int) -> Snapshot:
        """It writes and uploads what it has, and comes to the barrier then."""
        base = leaves_the_loop(second)
        return replace(base, processes=ddp(second, world=3).processes)

    said = play(lives, 60)
    assert [item.confidence for found in said for item in found if item.id == "G04"].count("likely") == 0
    assert ids(said[-1]) == ["G01", "G04"], "what may be explains no standstill"
    finding = said[-1][1]
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert "process 4001 of rank 1 still exists" in [fact.text for fact in finding.evidence]


def test_by_the_counts_of_nccl_it_takes_no_stack() -> None:
    finding = verdict(leaves_by_nccl, 60)
    assert finding.title == "Rank 1 ended before the others, which wait for it"
    assert any("ranks 0, 2 wait in AllReduce" in fact.text for fact in finding.evidence)


def test_a_rank_that_failed_or_was_killed_is_not_called_one_that_ended_well() -> None:
    for changes, said in (({"exit_code": 1, "state": "failed"}, "failed"), ({"exit_code": -9, "state": "killed"}, "SIGKILL")):
        finding = verdict(ends(stands(BACKWARD, None, BACKWARD), 1, **changes), 60)
        assert finding.id == "G04"
        assert said in finding.title
        assert "ended before" not in finding.title


def test_no_rank_waits_if_nothing_is_exchanged() -> None:
    assert all("G04" not in ids(found) for found in play(without_a_group, 60))
    assert all("G04" not in ids(found) for found in play(leaves_well(stands(BACKWARD, None, None)), 60))


def test_a_rank_that_finished_before_the_others_is_named() -> None:
    finding = verdict(finished_early, 20)
    assert finding.title == "Rank 1 ended while the others trained, and the others failed without it"
    assert (finding.severity, finding.confidence) == ("error", "likely")


def alone(state: str, exit_code: int | None = None, facts: dict[str, object] | None = None, *texts: tuple[str, str]) -> Scene:
    """A run of one process that has ended in this state, with these texts in its output."""

    def scene(second: int) -> Snapshot:
        base = failed(second, 1, *texts)
        (run,) = base.runs
        (rank,) = run.ranks
        rank = replace(rank, state=state, exit_code=exit_code, facts=rank.facts if facts is None else {**rank.facts, **facts})
        return replace(base, runs=(replace(run, state=state, ranks=(rank,), ended_at=base.time),))

    return scene


def test_a_process_that_was_killed_or_crashed_without_a_word_is_named() -> None:
    (finding,) = verdict_of(alone("killed"))
    assert (finding.id, finding.severity, finding.confidence) == ("G04", "warning", "possible"), "a search ends trials, too"
    assert finding.title == "The process of the run was killed, or crashed"
    assert "segmentation fault" in finding.cause
    assert "out-of-memory" in finding.cause
    (signalled,) = verdict_of(alone("killed", -11))
    assert signalled.title == "The process of the run was ended by SIGSEGV"
    assert signalled.confidence == "likely"
    (ended,) = verdict_of(alone("killed", -15))
    assert ended.confidence == "possible"


@pytest.mark.parametrize(("begun_s", "command", "told"), [(5.0, True, False), (-9.0, True, True), (5.0, False, True)])
def test_a_lost_rank_is_history_once_its_command_was_started_again(begun_s: float, command: bool, told: bool) -> None:
    def scene(second: int) -> Snapshot:
        base = ddp(second)
        (run,) = base.runs
        ranks = tuple(replace(rank, state="killed", exit_code=-9 if rank.rank == 1 else None) for rank in run.ranks)
        since = base.time - second
        dead = replace(
            run, state="killed", ranks=ranks, command=("torchrun", "train.py"), created_at=since - 60, ended_at=since
        )
        again = replace(run, run_id="run-2", command=dead.command if command else ("python",), created_at=since + begun_s)
        return replace(base, runs=(again, dead), processes=())

    lost = [item for item in list(play(scene, 20))[-1] if item.id == "G04" and item.run == "run-1"]
    assert bool(lost) is told


@pytest.mark.parametrize(
    "scene",
    [alone("finished"), alone("stopped"), alone("failed", 1), alone("killed", None, None, ("sigkill", "exitcode  : -9"))],
    ids=["finished", "stopped", "failed", "its output tells"],
)
def test_other_ends_of_a_lone_process_are_not_called_so(scene: Scene) -> None:
    assert all("The process of the run" not in item.title for item in verdict_of(scene))


def test_an_untracked_run_has_no_journal_that_could_have_ended() -> None:
    def curve_only(second: int) -> Snapshot:
        base = alone("killed")(second)
        return replace(base, ended_runs=(ProcessRun("pid:1", "train.py", run_id=base.runs[0].run_id),))

    assert all("The process of the run" not in item.title for item in verdict_of(curve_only))


def verdict_of(scene: Scene) -> list[Finding]:
    return list(play(scene, 8)[-1])


def test_a_rank_that_its_command_line_numbers_waits_for_the_others_by_name() -> None:
    [*_, (found, *_)] = play(by_command, 60)
    assert (found.id, found.confidence) == ("G03", "certain")
    assert found.title == "Rank 0 waits for rank 1, which does not run"
    assert found.fix == "python main.py --rank 1 --world-size 2"
    assert "rank 0 of 2, by --rank on the command line" in [fact.text for fact in found.evidence]
    [*_, (elsewhere, *_)] = play(lambda second: by_command(second, meets_at="10.0.0.1:23456"), 60)
    assert (elsewhere.title, elsewhere.confidence) == (f"{found.title} on this machine", "likely")
    [*_, (node, *_)] = play(node_by_command, 60)
    assert node.title == "Node 0 waits for node 1, which does not run on this machine"


def test_a_rank_of_the_environment_that_looks_who_has_come_waits_for_the_others() -> None:
    """Started without a launcher; now and then, its main thread is seen running."""

    def scene(second: int) -> Snapshot:
        base = by_command(second)
        environment = LaunchEnvironment(rank=0, world_size=2, master_port=29500, settings=(("MASTER_ADDR", "localhost"),))
        processes = [replace(item, stated=None, environment=environment) for item in base.processes]
        if second % 4 == 0:
            processes = [replace(item, state="R", waits_for=None) for item in processes]
        return replace(base, processes=tuple(processes))

    [*_, (found, *_)] = play(scene, 60)
    assert (found.title, found.confidence) == ("Rank 0 waits for rank 1, which does not run", "certain")
    assert found.fix.startswith("MASTER_ADDR=localhost MASTER_PORT=29500 WORLD_SIZE=2 RANK=1 python main.py")
