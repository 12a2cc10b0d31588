"""What a run prints to a pane of tmux or a window of GNU screen: real servers of their own, which are only read."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.untracked import followed
from gputop.untracked.curves import UntrackedCurves
from gputop.untracked.windows import gnu_screen, terminals
from gputop.untracked.windows import tmux as tmux_servers
from gputop.untracked.windows.panes import Pane, PaneReader
from tests.real_processes import eventually
from tests.untracked.test_curves import Trainings, run_of, trainings, write_csv

assert trainings

PRINTS = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
for step in range(1, 2000):
    print(f"step {step} loss {1 / step:.4f}", flush=True)
    time.sleep(0.002 if step < 300 else 0.1)
"""


class Tmux:
    """A server with a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "s")

    def __call__(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", self.socket, *words], check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux here")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path must be short
        server = Tmux(Path(folder))
        yield server
        subprocess.run(["tmux", "-S", server.socket, "kill-server"], check=False, capture_output=True)


def check_all_lines_are_read(pid: int, source: str) -> None:
    """Read what a process prints to a window until its newest lines, and check that none is missing or out of order."""
    reader, steps = UntrackedCurves(), list[int]()

    def newest() -> int:
        found = reader.poll([run_of(pid)])
        steps.extend(step for points in found.points if points.metric == "loss" for step in points.steps)
        return steps[-1] if steps else 0

    eventually(newest, lambda step: step > 305)
    assert set(steps) >= set(range(1, 300)), "the lines that have scrolled away, too"
    assert steps == sorted(steps)
    (curve,) = reader.poll([run_of(pid)]).process_runs[0].curves
    assert (curve.source, curve.files) == (source, ())


def test_lines_in_a_pane_become_a_curve_and_the_pane_stays_as_it_is(
    tmux: Tmux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "PANE_S", 0.0)
    said, script = tmp_path / "pid", tmp_path / "prints é.py"
    script.write_text(PRINTS)
    tmux("new-session", "-d", "-x", "60", "-y", "12", shlex.join([sys.executable, str(script), str(said)]))
    pid = int(eventually(lambda: said.read_text() if said.exists() else "", bool))
    state = "#{session_attached} #{pane_in_mode} #{pane_width}x#{pane_height} #{pane_pipe} #{session_windows}"
    before = tmux("display-message", "-p", state)
    check_all_lines_are_read(pid, "its output in tmux")
    assert tmux("display-message", "-p", state) == before
    assert tmux("list-clients") == tmux("list-buffers") == ""


def test_lines_in_a_window_of_screen_become_a_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("screen") is None:
        pytest.skip("there is no GNU screen here")
    monkeypatch.setattr(followed, "PANE_S", 0.0)
    said, script = tmp_path / "pid", tmp_path / "prints é.py"
    script.write_text(PRINTS)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = os.environ | {"SCREENDIR": folder}

        def screen(*words: str) -> str:
            done = subprocess.run(["screen", *words], env=environment, capture_output=True, text=True, check=False)
            return done.stdout

        screen("-dmS", "training", "-h", "500", sys.executable, str(script), str(said))
        try:
            pid = int(eventually(lambda: said.read_text() if said.exists() else "", bool))
            check_all_lines_are_read(pid, "its output in screen")
            terminal = os.readlink(f"/proc/{pid}/fd/1")
            named = {"STY": os.path.basename(next(Path(folder).iterdir())), "WINDOW": "0", "SCREENDIR": folder}
            assert gnu_screen.find(terminal, named) == (f"{folder}/{named['STY']}", "0")
            assert gnu_screen.find("/dev/pts/99999", named) is None, "a terminal of another program"
            for wrong in ({"STY": f"{os.getpid()}.training"}, {"STY": "; reboot"}, {"WINDOW": "-X quit"}, {"STY": ""}):
                assert gnu_screen.find(terminal, named | wrong) is None
            assert gnu_screen.capture(f"{folder}/1.gone", "0") is None
            screen("-S", "training", "-X", "screen", "sleep", "600")
            eventually(lambda: gnu_screen.find(terminal, named), lambda found: found is None)  # which window is it now?
        finally:
            screen("-S", "training", "-X", "quit")


def test_a_pane_is_read_only_where_nothing_else_shows_a_curve(trainings: Trainings, tmp_path: Path) -> None:
    run = run_of(trainings.start(tmp_path))
    write_csv(tmp_path)
    asked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed, "PANE_S", 0.0)
        patch.setattr(terminals, "terminals_of", asked.append)
        reader = UntrackedCurves()
        eventually(lambda: reader.poll([run]), lambda found: bool(found.runs))
    assert not asked
    assert not terminals.terminals_of(run), "its output is a pipe"


def test_a_capture_adds_the_lines_that_the_one_before_did_not_have() -> None:
    def loss(step: int) -> str:
        return f"step {step} loss {step}"

    reader = PaneReader(Pane("tmux", "", "", (0, 0)))
    captures = (
        [loss(step) for step in range(1, 8)],
        [loss(step) for step in range(1, 8)],
        [loss(step) for step in range(4, 12)],
        [loss(step) for step in range(90, 95)],
        [*(loss(step) for step in range(90, 95)), "", "step 96 loss 9"],
        [*(loss(step) for step in range(90, 95)), "", "step 97 loss 8"],
    )
    found = [[step for step, _ in reader.take_in("\n".join(lines) + "\n\n\n")] for lines in captures]
    assert found == [[1, 2, 3, 4, 5, 6, 7], [], [8, 9, 10, 11], [90, 91, 92, 93, 94], [96], [97]]


def test_only_a_socket_of_this_user_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for path in (str(tmp_path / "file"), str(tmp_path / "missing"), "x\0y", ""):
        assert tmux_servers.sockets({"TMUX": f"{path},1,0", "TMUX_TMPDIR": str(tmp_path)}) == []
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as server:
        own, link = Path(folder, "own"), Path(folder, "link")
        own.mkdir()
        link.symlink_to(own)
        server.bind(str(own / "s"))

        def asked(path: Path) -> list[str]:
            """Return the sockets for a process that names this one; whoever runs this test may have a default server."""
            return tmux_servers.sockets({"TMUX": f"{path},1,0", "TMUX_TMPDIR": str(tmp_path)})

        assert asked(own / "s") == [f"{own}/s"]
        assert asked(link / "s") == [f"{own}/s"], "the link may change before the socket is asked"
        own.chmod(0o777)
        assert asked(own / "s") == [], "anybody can put another socket in its place"
