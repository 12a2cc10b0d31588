from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.history.history import History
from gputop.jobs.store import Job
from gputop.snapshot import LaunchEnvironment, Points
from gputop.tui.drawing import jobs as drawn_jobs
from gputop.tui.drawing.doctor.finding import finding_lines
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.processes.details import _ACTIVITIES, process_lines
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.details import ProcessScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.state.keys import KEYS
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.log_view import LINES_KEPT, LogView
from gputop.whereabouts.records import Activity, Doing, HeldLoader, HeldModels, Holdings
from tests import samples
from tests.tui.kit import SIZES, ScreenApp, text_of, view_of

UUIDS = tuple(samples.device(index).uuid for index in range(8))
A07 = Finding(
    id="A07",
    severity="error",
    confidence="certain",
    title="Only GPU 0 is used: all 4 ranks run on it",
    evidence=(
        Fact("LOCAL_RANK is 0, 1, 2, 3, but every process uses GPU 0", [0, 1, 2, 3], "/proc environ and NVML"),
        Fact("GPUs 1-7 were idle for 15 s", 0.0, "NVML"),
    ),
    cause="Each rank must choose its own GPU; these all took the default, cuda:0.",
    fix='torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    refuted_by="A process of this run on another GPU.",
    devices=(UUIDS[0],),
    pids=(4000, 4001),
    run="run-1",
)
B02 = Finding("B02", "warning", "likely", "The batch is smaller than the number of GPUs", (), "Because.", "Use a larger batch.")


def text(lines: object) -> str:
    return "\n".join(plain(line) for line in lines)  # type: ignore[attr-defined]


def test_a_finding_in_full_has_every_part() -> None:
    shown = text(finding_lines(A07, samples.ranks_on_one_gpu(), 100))
    for part in (
        A07.title,
        "certain",
        A07.evidence[0].text,
        "NVML",
        A07.cause,
        A07.fix,
        A07.refuted_by,
        "GPU 0",
        "4000",
        "rank 1",
    ):
        assert part in shown


@pytest.mark.parametrize("width", [40, 76, 156])
def test_nothing_is_wider_than_its_room(width: int) -> None:
    snapshot = samples.snapshot()
    for lines in (finding_lines(A07, snapshot, width), process_lines(snapshot.processes[0], snapshot, width)):
        assert max(len(plain(line)) for line in lines) <= width


def test_control_characters_of_a_command_line_do_not_reach_the_terminal() -> None:
    snapshot = samples.snapshot()
    process = replace(snapshot.processes[0], command=("python", "\x1b[2Jtrain.py", "[bold]"))
    shown = text(process_lines(process, snapshot, 100))
    assert "\x1b" not in shown
    assert "[bold]" in shown


def test_a_wide_screen_shows_a_process_in_two_columns() -> None:
    snapshot = samples.snapshot()
    below, beside = (text(process_lines(snapshot.processes[2], snapshot, width)) for width in (115, 158))
    assert sorted(beside.split()) == sorted(below.split())
    assert beside.count("\n") < 0.75 * below.count("\n")


def test_wrapping_loses_no_word_and_keeps_line_breaks() -> None:
    lines = text(wrapped("one two\n    three " + "x" * 50, 20)).split("\n")
    assert "".join("".join(lines).split()) == "onetwothree" + "x" * 50
    assert lines[1].startswith("    three")


def test_a_process_shows_all_groups() -> None:
    snapshot = samples.snapshot()
    shown = text(process_lines(snapshot.processes[2], snapshot, 120))
    for part in ("4002", "ada", "train.py", "GPU 2", "70.5 GiB", "97%", "resnet18-ddp", "torchrun", "LOCAL_RANK", "bash"):
        assert part in shown


def test_an_empty_variable_is_not_an_unset_one() -> None:
    snapshot = samples.snapshot()
    for value, words in ((None, "not set"), ("", '"" (empty)'), ("0,1", "0,1")):
        process = replace(snapshot.processes[0], environment=LaunchEnvironment(cuda_visible_devices=value))
        line = next(line for line in text(process_lines(process, snapshot, 100)).split("\n") if "CUDA_VISIBLE" in line)
        assert words in line


def test_what_another_user_hides_is_marked_as_hidden() -> None:
    snapshot = samples.snapshot()
    process = replace(snapshot.processes[0], command=None, environment=None, hidden=("command", "environment"))
    assert "another user: command, environment" in text(process_lines(process, snapshot, 120))
    own = replace(process, hidden=("doing", "waits_for"))
    assert "the kernel does not allow debuggers here (Yama): doing, waits_for" in text(process_lines(own, snapshot, 120))


def test_what_the_main_thread_of_an_untracked_process_does_is_shown() -> None:
    snapshot = samples.snapshot()
    for doing, words in (
        (Doing("data", "train.py:41", "read_rows"), "main thread prepares or awaits data at train.py:41 in read_rows"),
        (Doing("wait", "train.py:9", "fit", "time.sleep(2)"), "or service at train.py:9 in fit: `time.sleep(2)`"),
        (Doing("other"), "main thread is elsewhere"),
    ):
        shown = text(process_lines(replace(snapshot.processes[0], doing=doing), snapshot, 100))
        assert words in " ".join(shown.split())
    assert "main thread" not in text(process_lines(snapshot.processes[0], snapshot, 100))


def test_the_rows_below_the_main_thread_stay_where_they_are_if_a_look_fails() -> None:
    snapshot = samples.snapshot()
    read = replace(snapshot.processes[0], doing=Doing("other"), held=Holdings(HeldModels(("Net",))))
    seen, failed = (process_lines(process, snapshot, 100) for process in (read, replace(read, doing=None)))
    assert len(failed) == len(seen)
    assert "main thread N/A" in " ".join(text(failed).split())


def test_what_an_untracked_training_holds_is_shown() -> None:
    snapshot = samples.snapshot()
    models = HeldModels(("DistributedDataParallel",), "DistributedDataParallel", replicates=True, evaluates=True)
    loader = HeldLoader("train\x1b_dl", "Photos", "DistributedSampler", is_plain=False, batch_size=32)
    for held, words in (
        (Holdings(models), "model DistributedDataParallel, in evaluation mode"),
        (Holdings(replace(models, evaluates=False), loader), "model DistributedDataParallel loader"),
        (Holdings(None, loader), "_dl: Photos, DistributedSampler, batches of 32"),
        (Holdings(None, replace(loader, batch_size=None)), "_dl: Photos, DistributedSampler CPU"),
    ):
        shown = text(process_lines(replace(snapshot.processes[0], held=held), snapshot, 100))
        assert words in " ".join(shown.split())
        assert "\x1b" not in shown
    assert "Photos" not in text(process_lines(snapshot.processes[0], snapshot, 100))


def test_each_activity_has_words() -> None:
    assert set(_ACTIVITIES) == set(get_args(Activity))


@pytest.mark.parametrize("size", SIZES)
async def test_the_doctor_shows_the_verdict_first_and_in_full(size: tuple[int, int]) -> None:
    app = ScreenApp(DoctorScreen(), view_of(samples.ranks_on_one_gpu(), findings=(A07, B02)))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        shown = text_of(app)
        for part in ("2 problems", "Only GPU 0 is used", "certain", "What was seen", "What to do", "copy it"):
            assert part in shown
        await pilot.press("down")
        await pilot.pause()
        assert "Use a larger batch." in text_of(app)


async def test_the_chosen_finding_stays_chosen_when_another_comes_before_it() -> None:
    app = ScreenApp(DoctorScreen(), view_of(findings=(B02,)))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "Use a larger batch." in text_of(app)
        app.give(view_of(findings=(A07, replace(B02, run=None))))
        await pilot.pause()
        chosen = app.screen.chosen_finding()
        assert chosen is not None


async def test_copying_puts_the_finding_on_the_clipboard() -> None:
    app = ScreenApp(DoctorScreen(), view_of(findings=(A07,)))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("c")
        assert A07.fix in app.clipboard
        assert "[NVML]" in app.clipboard


async def test_a_healthy_machine_shows_what_was_watched() -> None:
    app = ScreenApp(DoctorScreen(), view_of(abstained=(Abstained("F01", "no step times yet", "run.log in every step"),)))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        shown = text_of(app)
        assert "No problem found, as far as gputop can see from here." in shown
        assert "Looked at 8 GPUs, 4 processes and 1 live run." in shown
        await pilot.press("down")
        await pilot.pause()
        assert "F01: no step times yet" in text_of(app)
        assert "needs: run.log in every step" in text_of(app)


@pytest.mark.parametrize("size", SIZES)
async def test_the_help_has_every_key_and_scrolls(size: tuple[int, int]) -> None:
    app = ScreenApp(HelpScreen(), view_of())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        pane = app.screen.query_one("#help", LinesWidget)
        everything = text(pane.lines)
        for key in KEYS:
            assert key.keys in everything
        for word in ("local rank", "world size", "gputop run -- python train.py"):
            assert word in everything
        assert "Keys: everywhere" in text_of(app)
        await pilot.press("question_mark")
        await pilot.pause()
        assert not isinstance(app.screen, HelpScreen)


async def test_a_process_that_ended_keeps_its_last_values_and_its_pid_is_not_mistaken() -> None:
    view = view_of()
    app = ScreenApp(ProcessScreen(view.snapshot.processes[0]), view)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert "Process 4000" in text_of(app)
        other = replace(view.snapshot.processes[0], started_at=samples.EPOCH - 1, command=("other",))
        app.give(view_of(samples.snapshot(1, processes=(other,))))
        await pilot.pause()
        shown = text_of(app)
        assert "It has ended" in shown
        assert "train.py" in shown
        await pilot.press("k")
        await pilot.pause()
        assert isinstance(app.screen, StopScreen)


async def test_the_log_follows_its_end_until_one_scrolls_up() -> None:
    from textual.app import App, ComposeResult

    class OneLog(App[None]):
        def compose(self) -> ComposeResult:
            yield LogView(id="log")

    app = OneLog()
    async with app.run_test(size=(60, 12)) as pilot:
        log = app.query_one(LogView)
        log.focus()
        log.add([f"line {number}" for number in range(100)])
        await pilot.pause()
        assert "line 99" in text_of(app)
        await pilot.press("pageup")
        log.add(["line 100"])
        await pilot.pause()
        assert "line 100" not in text_of(app)
        assert "End follows the log again" in text_of(app)
        await pilot.press("end")
        log.add(["line 101"], "42%")
        await pilot.pause()
        assert "line 101" in text_of(app)
        assert "42%" in text_of(app)
        log.add([f"more {number}" for number in range(3 * LINES_KEPT)])
        assert len(log.texts) == LINES_KEPT
        log.add(["word " * 40])
        await pilot.pause()
        assert max(len(plain(line)) for line in log.lines) <= log.inner_size.width


def job(job_id: str, devices: tuple[str, ...], model: str = "lenet", **changes: object) -> Job:
    base = Job(
        job_id,
        f"{model}-{len(devices)}",
        "finished",
        (),
        samples.__file__,  # type: ignore[arg-type]
        device_uuids=devices,
        values={"model": model},
        started_at=samples.EPOCH - 60 * (1 + len(devices)),
        ended_at=samples.EPOCH,
        exit_code=0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_speed_up_is_against_the_single_gpu_job_of_the_same_model() -> None:
    runs = tuple(
        samples.run(world_size=size, run_id=name, job_id=name) for name, size in (("one", 1), ("two", 2), ("other", 2))
    )
    speeds = {"one": 1000.0, "two": 900.0, "other": 5.0}
    points = tuple(
        Points(run.run_id, rank, "samples_per_s", (0, 1, 2, 3), (0.0, 1.0, 2.0, 3.0), (1.0, *(speeds[run.run_id],) * 3))
        for run in runs
        for rank in range(len(run.ranks))
    )
    snapshot = samples.snapshot(runs=runs, points=points)
    history = History()
    history.observe(snapshot)
    jobs = [job("other", UUIDS[:2], "resnet18"), job("two", UUIDS[:2]), job("one", UUIDS[:1]), job("none", UUIDS[:1])]
    found = drawn_jobs.compare(jobs, snapshot, history)
    assert found["two"].speed == pytest.approx(1800.0)
    assert found["two"].speed_up == pytest.approx(1.8)
    assert found["two"].efficiency == pytest.approx(0.9)
    assert found["other"].speed_up is None
    assert found["none"].speed is None
    line = plain(drawn_jobs.row(jobs[1], found["two"], snapshot, 150, False))
    for part in ("finished", "0,1", "1 800", "1.80x", "90%", "0.436"):
        assert part in line


@pytest.mark.parametrize(
    ("changes", "state", "ended"),
    [
        ({}, "finished", "0"),
        ({"state": "failed", "exit_code": 1}, "failed", "1"),
        ({"state": "killed", "exit_code": None, "signal": "SIGKILL"}, "killed", "SIGKILL"),
        ({"state": "running", "exit_code": None, "ended_at": None, "stop_asked": True}, "stopping", "-"),
    ],
)
def test_how_a_job_ended_is_one_word(changes: dict[str, object], state: str, ended: str) -> None:
    one = job("x", UUIDS[:1], **changes)
    assert (drawn_jobs.state_text(one), drawn_jobs.exit_text(one)) == (state, ended)
