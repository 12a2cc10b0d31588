"""A process that was seen to train, and then at one line in every look: it hangs, whether or not it prints its steps (G01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import Scene, play
from tests.doctor.scenes.outside import always, outside, then

STOPS_S = 40
PUT = "self.todo.put(batch, timeout=5)"
Looks = Callable[[int], Doing]


def at(text: str, function: str = "submit", activity: Activity = "other") -> Doing:
    return Doing(activity, "train.py:88", function, text)


def trains(second: int) -> Doing:
    activity: Activity = ("forward", "backward", "optimizer")[second % 3]
    return Doing(activity, f"train.py:{40 + second % 3}", "fit", "loss.backward()")


def stands(
    text: str, word: str = "lock", looks: Looks = trains, doing: Doing | None = None, stops: int = STOPS_S, **changes: Any
) -> Scene:
    """One process that prints nothing: it trains, and is then at this line, where its main thread waits."""
    base = outside(then(always("runs"), stops, always(word)), stops=stops, printed=False)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        seen = looks(second) if second < stops else doing or at(text)
        known = {"doing": seen, **({"woken_by": "nothing", "listens": False} | changes if second >= stops else {})}
        return replace(shot, processes=tuple(replace(process, **known) for process in shot.processes))

    return scene


def said(scene: Scene, seconds: int = 150) -> list[Finding | None]:
    return [next((item for item in found if item.id == "G01"), None) for found in play(scene, seconds)]


def first(found: list[Finding | None], confidence: str = "") -> float:
    """After how many seconds at its line the process was first said to hang, this confidently."""
    times = (second for second, item in enumerate(found) if item is not None and confidence in ("", item.confidence))
    return next(times, float("inf")) - STOPS_S


@pytest.mark.parametrize(
    ("text", "title", "fix"),
    [
        (PUT, "for room in a queue", "consumer.is_alive()"),
        ("item = ready.get()", "for an item of a queue", "producer.is_alive()"),
        ("self._lock.acquire(timeout=1)", "for a lock", "RLock"),
        ("with self._lock:", "for a lock", "RLock"),
        ("writer.join()", "for a thread or process to end", "join(timeout=60)"),
    ],
)
def test_a_wait_that_nothing_ends_is_first_possible_and_later_likely(text: str, title: str, fix: str) -> None:
    found = said(stands(text))
    assert 28 <= first(found, "possible") <= 34
    assert 60 + 13 <= first(found, "likely") <= 60 + 19, "a firmer verdict must hold for as long"
    last = found[-1]
    assert last is not None
    assert (last.title, last.severity) == (f"The training hangs: process 4000 waits {title}, at train.py:88", "error")
    assert fix in last.fix
    assert f"it was seen to train, and has been at train.py:88 in submit: `{text}` in every one of 110 looks" in (
        last.evidence[0].text
    )
    assert "all of its other threads wait for threads, and it has no child process" in {fact.text for fact in last.evidence}


@pytest.mark.parametrize("text", ["maker.join()", "proc.wait()"])
def test_a_wait_for_a_child_that_waits_for_its_reader_is_first_possible_and_later_likely(text: str) -> None:
    found = said(stands(text, "child"))
    assert 28 <= first(found, "possible") <= 34
    assert 60 + 13 <= first(found, "likely") <= 60 + 19
    last = found[-1]
    assert last is not None
    assert last.title == "The training hangs: process 4000 waits for a process that waits for it, at train.py:88"
    assert "queue.get(); process.join()" in last.fix
    assert any("writes into a full pipe that only it could read" in fact.text for fact in last.evidence)


@pytest.mark.parametrize(
    ("scene", "earliest"),
    [
        (stands(PUT, woken_by="time limit"), 28),
        (stands(PUT, woken_by="others"), 101),
        (stands("writer.join()", woken_by="time limit"), 28),
        (stands("writer.join()", woken_by="others"), 101),
        (stands("run(command)", "child", woken_by="others"), 101),
        (stands("client.push(batch)", "socket", woken_by=None), 101),
        (stands("torch.cuda.synchronize()", woken_by="others"), 101),
        (stands("name = input('name of the run: ')", "terminal", woken_by=None), 101),
    ],
    ids=[
        "a progress bar's thread is left",
        "a thread works on",
        "a thread that ends by itself",
        "a thread that works",
        "a program",
        "a service",
        "an unknown thread",
        "a question",
    ],
)
def test_a_wait_that_something_may_end_is_never_likely(scene: Scene, earliest: int) -> None:
    found = said(scene)
    assert earliest <= first(found, "possible") <= earliest + 8
    assert first(found, "likely") == float("inf")


@pytest.mark.parametrize("text", [PUT, "item = ready.get()", "with self._lock:", "writer.join()"])
def test_a_wait_that_nothing_ends_is_possible_also_if_nobody_saw_the_training(text: str) -> None:
    found = said(stands(text, stops=2))
    assert 28 <= first(found, "possible") + STOPS_S - 2 <= 34
    assert first(found, "likely") == float("inf"), "a signal may end it, and it may not train at all"
    last = found[-1]
    assert last is not None
    assert last.evidence[0].text.startswith(f"it has been at train.py:88 in submit: `{text}` in every one of 148 looks for ")


@pytest.mark.parametrize("doing", [at("maker.join()"), Doing("other")], ids=["its line is known", "its line is unknown"])
def test_a_process_that_waits_for_one_that_waits_for_it_hangs_also_if_nobody_saw_the_training(doing: Doing) -> None:
    found = said(stands("", "child", stops=2, doing=doing))
    assert 28 <= first(found, "possible") + STOPS_S - 2 <= 34
    assert (first(found, "likely") + STOPS_S - 2 <= 60 + 19) is (doing.line is not None)
    last = found[-1]
    assert last is not None
    assert "waits for a process that waits for it" in last.title
    assert any("only it could read" in fact.text for fact in last.evidence)


def test_others_on_its_gpu_do_not_hide_a_process_that_waits_for_itself() -> None:
    base = stands("maker.join()", "child", stops=2)

    def beside(second: int) -> Snapshot:
        shot = base(second)
        other = replace(shot.processes[0], pid=4100, ppid=4099, state="R", cpu_percent=90.0, doing=None, waits_for=None)
        devices = tuple(replace(device, utilization_percent=90.0) for device in shot.devices)
        return replace(shot, devices=devices, processes=(*shot.processes, replace(other, woken_by=None)))

    last = said(beside)[-1]
    assert last is not None
    assert (last.pids, last.confidence) == ((4000,), "likely")


def evaluates_first(second: int) -> Doing:
    """It trains, pauses for ten seconds, and trains again."""
    return at("results.append(score)", "evaluate") if 20 <= second < 30 else trains(second)


def test_a_process_must_stand_for_longer_than_its_pauses() -> None:
    assert 10 * 5 + 13 <= first(said(stands(PUT, looks=evaluates_first))) <= 10 * 5 + 25


SILENT: dict[str, Scene] = {
    "answers requests, and learns from them": stands("path = jobs.get()", woken_by="others", listens=True),
    "asks a queue for work that a timer brings": stands("job = jobs.get(timeout=1)", woken_by="time limit"),
    "a server": stands("client, _ = listener.accept()", "socket", woken_by=None, listens=True),
    "a server, by its line": stands("server.serve_forever()", "events", woken_by=None),
    "a server that ends with its thread": stands("server_thread.join()", woken_by="others", listens=True),
    "it is not known whether it serves": stands("client.push(batch)", "socket", woken_by=None, listens=None),
    "sleeps until the next round": stands("time.sleep(300)", "sleep", woken_by=None),
    "waits for the next round": stands("self.next_round.wait(300)"),
    "keeps what it shows open": stands("plt.show()", "events", woken_by=None),
    "waits for the next file": stands("line = feed.readline()", "pipe", woken_by=None),
    "only answers, and never learned": stands(PUT, looks=lambda second: Doing("forward", "serve.py:9", "answer")),
    "was hardly seen to train, and serves": stands(PUT, stops=2, listens=True),
    "was hardly seen to train, and may serve": stands(PUT, stops=2, listens=None),
    "was hardly seen to train, and a timer may wake it": stands("writer.join()", stops=2, woken_by="time limit"),
    "was hardly seen to train, and a thread works": stands("server.join()", stops=2, woken_by="others"),
    "was hardly seen to train, and starts others": stands("launcher.wait()", "child", stops=2, woken_by="others"),
    "was hardly seen to train, and waits for its turn": stands(
        "fcntl.flock(turn, LOCK_EX)", "file lock", stops=2, woken_by=None
    ),
    "was hardly seen to train, and waits for an event": stands("stop.wait()", stops=2),
    "its line is unknown": stands("", doing=Doing("other")),
    "is in the computation": stands(PUT, doing=at(PUT, activity="forward")),
    "is nowhere for long": stands(PUT, doing=None, looks=trains, stops=1000),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_process_that_waits_on_purpose_is_left_alone(name: str) -> None:
    assert not any(said(SILENT[name], 160))


def works(**changes: Any) -> Scene:
    base = stands(PUT)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        processes = tuple(replace(process, **changes) for process in shot.processes)
        return replace(shot, processes=processes) if second >= STOPS_S else shot

    return scene


@pytest.mark.parametrize(
    "scene",
    [works(cpu_percent=15.0), works(command=("python", "-m", "ipykernel_launcher", "-f", "kernel.json"))],
    ids=["a thread computes", "a notebook"],
)
def test_a_process_that_works_or_is_a_session_does_not_stand(scene: Scene) -> None:
    assert not any(said(scene, 160))


def test_between_two_lines_nothing_stands() -> None:
    base = stands(PUT)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        moved = at(PUT) if second % 12 else replace(at(PUT), line="train.py:90")
        return replace(shot, processes=tuple(replace(item, doing=moved) for item in shot.processes)) if second > 40 else shot

    assert not any(said(scene, 160))


def test_a_look_that_is_old_shows_nothing_of_now() -> None:
    """The stack cannot be read any more, as of a process that waits for a disk."""
    base = stands(PUT)

    def scene(second: int) -> Snapshot:
        shot = base(second)
        return shot if second < 60 else replace(shot, processes=tuple(replace(item, doing=None) for item in shot.processes))

    found = said(scene, 160)
    assert found[-1] is None
