"""The error texts in what untracked runs print: a fault, its look-alikes, and healthy runs; real files, real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.scan import LogScan
from gputop.jobs.output import matches
from gputop.jobs.output.matches import matches_of
from gputop.jobs.store import Job
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import Host, LogMatch, Snapshot
from gputop.untracked import ended, followed
from gputop.untracked import errors as errors_module
from gputop.untracked.curves import ENDED_MAX, UntrackedCurves, _claims
from gputop.untracked.errors import OUTLIVED_S, OutputErrors
from gputop.untracked.followed import FollowedRun
from gputop.untracked.kinds import IN_WINDOWS
from gputop.untracked.outputs import OutputFile
from gputop.untracked.run_curves import Curve, Key
from gputop.untracked.windows.panes import Pane, PaneReader
from tests.real_processes import eventually

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(20))
MORE = "".join(f"step {step} loss {3 - step / 100}\n" for step in range(20, 40))
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ann/train.py", line 41, in <module>
    main()
  File "/home/ann/train.py", line 30, in main
    row = table[key]
KeyError: 'speaker-7'
"""
LOST_ITS_PEER = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:39554."
)
LAUNCHER_REPORTS = """\
E1124 04:57:22.098000 2 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 6) of \
binary: python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
RANKS = (4001, 4002)
PANE = Pane("tmux", "/tmp/none", "%3", (1, 2))


class Output:
    """The output of a run with two ranks, and what is read of it."""

    def __init__(self, path: Path, before: str = "", started_at: float | None = None) -> None:
        self.path = path
        self.errors = OutputErrors("pid-4001-1")
        self.now = 0.0
        self.write(before)
        self.errors.follow({0: (output_file(path),)}, started_at)

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def look(self, *pids: int, after_s: float = 1.0, ended: bool = False) -> tuple[LogMatch, ...]:
        self.now += after_s
        self.errors.read(pids, self.now, ended)
        return self.errors.matches


def output_file(path: Path) -> OutputFile:
    found = path.stat()
    return OutputFile((found.st_dev, found.st_ino), path)


def raised(error: str) -> str:
    """A traceback that ends with this error."""
    return TRACEBACK.replace("KeyError: 'speaker-7'", error)


OOM = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "nohup.out")


def findings(matches: tuple[LogMatch, ...]) -> tuple[Finding, ...]:
    doctor, found = Doctor(), ()
    for second in range(3):
        found = doctor.observe(Snapshot(second, float(second), float(second), 1.0, Host("host"), logs=matches))
    return found


def test_an_error_of_a_rank_that_is_gone_is_explained_with_file_and_line(output: Output) -> None:
    output.write(STEPS)
    assert output.look(*RANKS) == ()
    output.write(TRACEBACK)
    output.look(*RANKS)
    (match,) = output.look(RANKS[0], ended=True)
    assert (match.pattern, match.job_state, match.file, match.line_number) == ("exception", "failed", "nohup.out", 26)
    (found,) = findings((match,))
    assert found.confidence == "likely"  # nobody knows the exit code
    assert "KeyError" in found.title
    assert "train.py:30 (main)" in found.title
    assert "nohup.out:26" in {fact.source for fact in found.evidence}


def test_a_known_text_has_the_cause_that_a_log_gets(output: Output) -> None:
    output.write(raised("ModuleNotFoundError: No module named 'sentencepiece'"))
    output.look(*RANKS)
    (found,) = findings(output.look(ended=True))
    assert "sentencepiece" in found.title + found.cause


def test_ranks_that_lost_a_silent_peer_are_explained(output: Output) -> None:
    """The rank that left printed no error: what the others print only follows from it, and is all that there is."""
    output.write(STEPS + raised(LOST_ITS_PEER) + LAUNCHER_REPORTS)
    output.look(*RANKS)
    (found,) = findings(output.look(ended=True))
    assert (found.id, found.severity, found.confidence) == ("G04", "error", "likely")
    assert "left or died" in found.title
    assert "nohup.out:26" in {fact.source for fact in found.evidence}


def test_a_peer_that_left_may_have_ended_them_if_no_launcher_reports_it(output: Output) -> None:
    output.write(STEPS + raised(LOST_ITS_PEER))
    output.look(*RANKS)
    (found,) = findings(output.look(ended=True))
    assert (found.id, found.confidence) == ("G04", "possible")


def test_a_lost_peer_explains_nothing_while_ranks_live_or_beside_its_cause(output: Output) -> None:
    output.write(STEPS + TRACEBACK + raised(LOST_ITS_PEER) + LAUNCHER_REPORTS)
    output.look(*RANKS)
    assert findings(output.look(*RANKS)) == ()
    assert [found.id for found in findings(output.look(ended=True))] == ["exception"]


def test_a_connection_that_closes_at_a_normal_end_is_not_a_failure(output: Output) -> None:
    output.write(STEPS + "W1124 04:57:22 TCPStore.cpp:133] [c10d] recvValue failed: Connection was likely closed\ndone\n")
    output.look(*RANKS)
    assert findings(output.look(ended=True)) == ()


def test_the_error_of_one_rank_is_explained_while_the_others_hang(output: Output) -> None:
    output.write(STEPS + TRACEBACK)
    output.look(*RANKS)
    output.look(RANKS[0])
    (match,) = output.look(RANKS[0])
    assert (match.line, match.job_state) == ("KeyError: 'speaker-7'", "failed")


def test_while_all_ranks_live_nothing_has_failed(output: Output) -> None:
    output.write(STEPS + TRACEBACK + "\n")
    output.look(*RANKS)
    assert {match.job_state for match in output.look(*RANKS)} <= {"running"}
    assert findings(output.errors.matches) == ()


def test_an_error_that_is_caught_and_printed_ends_nothing(output: Output) -> None:
    output.write(STEPS + TRACEBACK + MORE)
    output.look(*RANKS)
    assert output.look(*RANKS, after_s=OUTLIVED_S + 1) == ()
    assert output.look(ended=True) == ()


def test_a_full_disk_lasts_as_long_as_the_run_though_the_script_goes_on(output: Output) -> None:
    output.write(STEPS + "save failed: [Errno 28] No space left on device\n" + MORE)
    output.look(*RANKS)
    assert [match.pattern for match in output.look(*RANKS, after_s=OUTLIVED_S + 1)] == ["disk_full"]
    assert output.look(ended=True) == ()


def test_an_error_above_what_the_script_had_buffered_is_explained(output: Output) -> None:
    """Python writes stderr at once, and what it buffered of stdout as it ends."""
    output.write(TRACEBACK + STEPS)
    output.look(*RANKS)
    (match,) = output.look(ended=True)
    assert match.followed
    (found,) = findings((match,))
    assert found.confidence == "likely"
    assert "KeyError" in found.title


def test_a_later_error_is_explained_though_one_was_caught_before(output: Output) -> None:
    output.write(STEPS + TRACEBACK + MORE)
    output.look(*RANKS)
    output.look(*RANKS, after_s=OUTLIVED_S + 1)
    output.write(raised("ZeroDivisionError: division by zero"))
    (match,) = output.look(ended=True)
    assert match.line.startswith("ZeroDivisionError")


@pytest.mark.parametrize("error", ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "KeyError: 'a'"])
def test_without_an_exit_code_no_text_is_certain(output: Output, error: str) -> None:
    output.write(STEPS + raised(error))
    output.look(*RANKS)
    assert [found.confidence for found in findings(output.look(ended=True))] == ["likely"]


def test_an_error_without_a_traceback_is_likely_for_a_job_that_failed_too() -> None:
    scan = LogScan("train.log")
    scan.feed(f"{STEPS}requests.exceptions.ConnectionError: could not reach the tracker\n".encode())
    scan.end()
    job = Job("j1", "train", "failed", ("python", "train.py"), Path())
    (found,) = findings(matches_of(job, [scan]))
    assert (found.confidence, found.title) == ("likely", "The script failed with ConnectionError")


def test_an_error_that_many_other_lines_follow_ended_nothing(output: Output) -> None:
    output.write(TRACEBACK + "INFO taking the slow path\nINFO serving\n")
    output.look(*RANKS)
    output.write("INFO request 200 in 12 ms\n" * 500)
    output.look(*RANKS)
    output.write("INFO shutdown complete\n")
    assert output.look(ended=True) == ()


def test_what_other_ranks_and_launchers_say_of_an_error_does_not_hide_it(output: Output) -> None:
    frames = "".join(f"frame #{number}: c10::Error::Error() + 0x1 (0x7f in libc10.so)\n" for number in range(40))
    others = "".join(raised(f"LookupError: no row for rank {rank}") + frames for rank in range(8))
    output.write(STEPS + raised("ModuleNotFoundError: No module named 'sentencepiece'") + others)
    output.look(*RANKS)
    assert output.look(ended=True)[0].pattern == "module_missing"


def test_a_restart_of_all_ranks_forgives_what_ended_them(output: Output) -> None:
    output.write(STEPS + TRACEBACK)
    output.look(*RANKS)
    output.look(4003, 4004)
    output.write(MORE)
    for _ in range(30):
        output.look(4003, 4004)
    output.write("saved the last checkpoint\n")
    assert output.look(ended=True) == ()


def start(output: Output, text: str, *pids: int) -> tuple[LogMatch, ...]:
    """Play a start of these ranks that prints a text, and ends with it."""
    output.look(*pids)
    output.write(text)
    output.look(*pids, after_s=10.0)
    return output.errors.matches


def test_an_error_that_ends_each_start_is_no_accident(output: Output) -> None:
    """torchrun --max-restarts: ranks are alive nearly always, and never get further."""
    for number in range(4):
        start(output, STEPS + TRACEBACK, 4010 + number, 4020 + number)
    found = output.look(4014, 4024)
    assert [(match.line, match.where, match.job_state) for match in found] == [
        ("KeyError: 'speaker-7'", "train.py:30 (main)", "failed")
    ]
    output.write(STEPS)
    assert output.look(4014, 4024, after_s=5.0) == found
    assert output.look(4014, 4024, after_s=100.0) == (), "this start has got further"


def test_restarts_for_other_reasons_each_time_say_nothing(output: Output) -> None:
    for number, key in enumerate(("KeyError: 'a'", "OSError: [Errno 5] Input/output error", "TimeoutError: no answer")):
        start(output, STEPS + raised(key), 4010 + number, 4020 + number)
    assert output.look(4014, 4024) == ()


def test_starts_are_remembered_where_no_rank_is_seen_between_them(output: Output) -> None:
    """The run is gone for a moment, and somebody else reads on."""
    for number in range(3):
        start(output, STEPS + TRACEBACK, 4010 + number, 4020 + number)
        output.look(after_s=1.0)
        before, output.errors = output.errors, OutputErrors("pid-4001-1", output.errors.ends)
        output.errors.follow({0: (output_file(output.path),)}, time.time() - 100)
        assert before.matches[0].job_state == "failed"
    assert [match.line for match in output.look(4014, 4024)] == ["KeyError: 'speaker-7'"]


def test_after_a_restart_a_later_error_is_explained(output: Output) -> None:
    output.write(STEPS + OOM)
    output.look(*RANKS)
    output.look(4003, 4004)
    output.write("loading\n" + raised("ZeroDivisionError: division by zero"))
    output.look(4003, 4004)
    (match,) = output.look(4003)
    assert (match.line, match.job_state) == ("ZeroDivisionError: division by zero", "failed")


def test_a_helper_that_exits_is_no_loss_once_training_continues(output: Output) -> None:
    output.write(STEPS)
    output.look(*RANKS, 4005)
    output.look(*RANKS)
    output.write(TRACEBACK + MORE)
    for step in range(40, 70):
        output.write(f"step {step} loss 2.5\n")
        output.look(*RANKS)
    assert output.errors.matches == ()
    assert output.look(ended=True) == ()


def test_an_error_that_was_in_the_file_before_is_not_the_run_s(tmp_path: Path) -> None:
    output = Output(tmp_path / "train.log", before=STEPS + OOM)
    output.look(*RANKS)
    assert output.errors.matches == ()
    output.write("loading\n" + raised("ModuleNotFoundError: No module named 'sentencepiece'"))
    output.look(*RANKS)
    (match,) = output.look(ended=True)
    assert (match.pattern, match.line_number) == ("module_missing", 33)


def test_text_that_was_printed_after_the_file_was_found_is_the_run_s(tmp_path: Path) -> None:
    """The modules that judge texts are imported after a file is found, which takes a second."""
    path = tmp_path / "train.log"
    path.write_text(STEPS)
    as_found = {path: path.stat()}
    path.write_text(STEPS + TRACEBACK)
    errors = OutputErrors("pid-4001-1")
    errors.follow({0: (output_file(path),)}, as_found=as_found)
    errors.read(RANKS, 0.0)
    errors.read((), 1.0, ended=True)
    assert [match.line for match in errors.matches] == ["KeyError: 'speaker-7'"]


def test_what_a_file_contains_is_noted_before_the_modules_that_judge_it_are_imported(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with path.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=out, stderr=out)
    try:
        path.write_text(STEPS)
        run, item = run_of(process.pid), FollowedRun("pid-1")
        item._search_and_read(run, ())
        path.write_text(STEPS + TRACEBACK)
    finally:
        process.communicate(b"\n")
    item._scan_for_errors(run)
    assert item.errors is not None
    item.errors.read((), time.monotonic(), ended=True)
    assert [match.line for match in item.error_texts] == ["KeyError: 'speaker-7'"]


def test_a_healthy_run_below_an_old_error_says_nothing(tmp_path: Path) -> None:
    summary = f"{'=' * 60}\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 1\n  exitcode  : 1\n"
    output = Output(tmp_path / "train.log", before=STEPS + TRACEBACK + summary)
    output.look(*RANKS)
    output.write("Serving.\n")
    output.look(*RANKS, after_s=600)
    output.write("bye\n")
    assert output.look(ended=True) == ()


@pytest.mark.parametrize(("age_s", "kept"), [(3600.0, ["omp1"]), (-3600.0, [])])
def test_a_hint_is_kept_unless_the_file_is_older_than_the_run(tmp_path: Path, age_s: float, kept: list[str]) -> None:
    hint = "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
    output = Output(tmp_path / "train.log", before=hint, started_at=time.time() - age_s)
    assert [match.pattern for match in output.look(*RANKS)] == kept


def test_a_file_that_is_long_before_is_read_to_where_the_run_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "READ_BYTES", 300)
    output = Output(tmp_path / "train.log", before=STEPS + OOM)
    output.write(MORE + TRACEBACK)
    for _ in range(20):
        output.look(*RANKS)
    (match,) = output.look(ended=True)
    assert match.line == "KeyError: 'speaker-7'"


def test_a_healthy_run_that_ends_says_nothing(output: Output) -> None:
    output.write(STEPS)
    output.look(*RANKS)
    output.write(MORE + "training done\n")
    assert output.look(ended=True) == ()


def test_one_read_is_bounded(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "READ_BYTES", 200)
    output.write(STEPS + TRACEBACK)
    looks = 1
    while not output.look(ended=True):
        looks += 1
        assert looks < 20
    assert looks >= len(STEPS + TRACEBACK) // 200


def test_a_window_of_tmux_is_read_as_a_file_is(output: Output) -> None:
    reader = PaneReader(PANE)
    reader.take_in(STEPS)
    output.errors.follow_pane(reader.scan, PANE.identity)
    output.look(*RANKS)
    reader.take_in(f"{STEPS}{TRACEBACK}ann@host:~$ \n")
    (match,) = output.look(ended=True)
    assert (match.file, match.line_number) == ("the tmux window %3", None)
    assert match.job_state == "failed"


def test_only_the_text_of_a_window_expires(output: Output) -> None:
    reader, text = PaneReader(PANE), STEPS
    output.errors.follow_pane(reader.scan, PANE.identity)
    reader.take_in(f"{text}x\n")
    text += TRACEBACK + MORE
    reader.take_in(f"{text}x\n")
    output.look(*RANKS)
    text += "step 41 loss 2\n" + raised("ZeroDivisionError: division by zero") + "step 41 loss 2\nstep 42 loss 2\n"
    reader.take_in(f"{text}x\n")
    output.look(*RANKS, after_s=OUTLIVED_S + 1)
    (match,) = output.look(ended=True)
    assert match.line == "ZeroDivisionError: division by zero"


def test_text_that_was_in_a_window_before_the_run_is_not_its_own(output: Output) -> None:
    reader = PaneReader(PANE)
    output.errors.follow_pane(reader.scan, PANE.identity)
    before = f"$ python train.py\n{TRACEBACK}$ python train.py --fixed\nloading\n"
    reader.take_in(f"{before}x\n")
    output.look(*RANKS)
    reader.take_in(f"{before}bye\n$ \n")
    assert output.look(ended=True) == ()


def test_a_window_that_two_live_runs_print_to_is_neithers() -> None:
    curves = UntrackedCurves()
    for number in range(2):
        item = curves._followed[f"pid-{number}"] = FollowedRun(f"pid-{number}")
        reader, key = PaneReader(PANE), Key(IN_WINDOWS[PANE.program], PANE.name)
        reader.take_in(f"{STEPS}$ \n")
        item.errors = OutputErrors(item.run_id)
        item.errors.follow_pane(reader.scan, PANE.identity)
        item.curves.by_key[key] = Curve(key, identities=frozenset((PANE.identity,)))
        item.errors.read((number,), 0.0)
        reader.take_in(f"{STEPS}{TRACEBACK}$ \n")
        item.errors.read((), 1.0, ended=True)
        assert item.errors.matches
    assert curves._logs(Counter(name for item in _followed(curves) for name in _claims(item))) == ()


def test_each_file_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "READ_BYTES", 1000)
    monkeypatch.setattr(matches, "TICK_BYTES", 2000)
    monkeypatch.setattr(matches, "TICK_S", 60.0)
    paths = [tmp_path / f"rank{rank}.log" for rank in range(6)]
    for path in paths:
        path.touch()
    errors = OutputErrors("pid-4001-1")
    errors.follow({rank: (output_file(path),) for rank, path in enumerate(paths)})
    for path in paths[:5]:
        path.write_text(MORE * 100)
    paths[5].write_text(TRACEBACK)
    for second in range(6):
        errors.read(RANKS, float(second))
    for second in range(6, 12):
        errors.read(RANKS[:1], float(second), ended=True)
    assert [(match.rank, match.line) for match in errors.matches] == [(5, "KeyError: 'speaker-7'")]
    assert not errors.at_end


FAILS = """
import sys, time
print("step 1 loss 3.5", flush=True)
sys.stdin.readline()
raise LookupError("no row for speaker-7")
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.setattr(followed, "LAST_WORDS_S", 0.5)
    (tmp_path / "train.py").write_text(FAILS)
    with (tmp_path / "slurm-17.out").open("wb") as out:
        process = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=out, stderr=out)
    yield process
    process.kill()
    process.communicate()


def run_of(pid: int) -> ProcessRun:
    return ProcessRun(f"pid:{pid}", "train.py", (ProcessRank(pid),), None, started_at=time.time() - 20, command=("train.py",))


def test_what_ended_a_run_is_kept_after_it(started: subprocess.Popen[bytes]) -> None:
    curves = UntrackedCurves()
    run = run_of(started.pid)
    eventually(lambda: curves.poll([run]), lambda found: bool(found.runs))
    started.communicate(b"\n")
    found = eventually(lambda: curves.poll([]), lambda found: bool(found.logs))
    assert found.process_runs == ()
    (match,) = found.logs
    assert (match.line, match.file, match.job_state) == ("LookupError: no row for speaker-7", "slurm-17.out", "failed")
    assert [item.run for item in findings(found.logs)] == [match.run_id]


def test_what_ended_a_run_is_read_to_its_end(started: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "READ_BYTES", 200)
    curves = UntrackedCurves()
    run = run_of(started.pid)
    eventually(lambda: curves.poll([run]), lambda found: bool(found.runs))
    with Path(f"/proc/{started.pid}/cwd/slurm-17.out").open("ab") as out:
        out.write(b"loading a shard\n" * 500)
    started.communicate(b"\n")
    found = eventually(lambda: curves.poll([]), lambda found: bool(found.logs))
    assert [match.line for match in found.logs] == ["LookupError: no row for speaker-7"]


def test_ended_runs_without_a_text_take_no_place(started: subprocess.Popen[bytes]) -> None:
    curves = UntrackedCurves()
    eventually(lambda: curves.poll([run_of(started.pid)]), lambda found: bool(found.runs))
    started.communicate(b"\n")
    eventually(lambda: curves.poll([]), lambda found: bool(found.logs))
    for number in range(2 * ENDED_MAX):
        curves._followed[f"pid-{number}"] = FollowedRun(f"pid-{number}")
        assert curves.poll([]).logs, number


def test_a_run_that_is_tracked_now_has_not_ended(started: subprocess.Popen[bytes]) -> None:
    curves = UntrackedCurves()
    eventually(lambda: curves.poll([run_of(started.pid)]), lambda found: bool(found.runs))
    (followed_run,) = _followed(curves)
    curves.poll([], tracked=[started.pid])
    started.communicate(b"\n")
    eventually(lambda: curves.poll([], tracked=[started.pid]), lambda _: not followed_run.lingers)
    assert curves.poll([], tracked=[started.pid]).logs == ()


@pytest.mark.parametrize("both", [False, True])
def test_a_text_in_output_of_two_runs_is_that_of_the_one_that_ended_with_it(
    both: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "LAST_WORDS_S", 0.5)
    monkeypatch.setattr(ended, "WATCHED_MIN_S", 0.0)
    path = tmp_path / "all.log"
    with path.open("wb") as out:
        pair = [
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=out, stderr=out) for _ in range(2)
        ]
    try:
        with path.open("a") as file:
            file.write(STEPS)
        curves = UntrackedCurves()
        runs = [run_of(process.pid) for process in pair]
        eventually(lambda: curves.poll(runs), lambda _: all(item.printed_to for item in _followed(curves)))
        with path.open("a") as file:
            file.write(f"{TRACEBACK}INFO bye\n")
        eventually(lambda: curves.poll(runs), lambda _: any(item.errors.at_end for item in _followed(curves)))
        assert curves.poll(runs).logs == (), "while both live, it is neither's"
        first, second = _followed(curves)
        alive = [] if both else runs[:1]
        for process in pair if both else pair[1:]:
            process.communicate(b"\n")
        found = eventually(lambda: curves.poll(alive), lambda found: bool(found.logs))
        (run_id,) = {match.run_id for match in found.logs}
        assert both or run_id == second.run_id
        assert {match.line for match in found.logs} == {"KeyError: 'speaker-7'"}
        eventually(lambda: curves.poll([]), lambda _: not first.lingers)
        found = curves.poll([])
        assert {match.run_id for match in found.logs} == {run_id}, "it is said of one run only"
        assert [run.failed for run in found.ended_runs].count(True) == 1
    finally:
        for process in pair:
            process.kill()
            process.communicate()


def _followed(curves: UntrackedCurves) -> list[FollowedRun]:
    return list(curves._followed.values())
