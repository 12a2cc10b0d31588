"""Something else in each place where gputop keeps something: no command hangs, follows a link, or says more than a sentence.

Places and kinds are paired by the code that meets them. Commands are forks of this process, so that one may hang or end it.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
from tests import REPOSITORY
from tests.terminal import Terminal
from tests.tracking.kit import Home, home

assert home
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="links and owners are Linux's"),
    pytest.mark.timeout(400),
]

FOREIGN_UID = 12345
LIMIT_S = 90
"""A deadline, not a claim: what waits for a pipe or reads a device waits for ever."""
SECRET = b"written by somebody else\n"


def _socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


def _foreign(path: Path) -> None:
    path.mkdir(mode=0o500)
    if os.geteuid() == 0:
        os.chown(path, FOREIGN_UID, FOREIGN_UID)


KINDS: Mapping[str, Callable[[Path, Path], object]] = {
    "file": lambda path, victims: path.write_bytes(SECRET),
    "folder": lambda path, victims: path.mkdir(),
    "pipe": lambda path, victims: os.mkfifo(path),
    "socket": lambda path, victims: _socket(path),
    "device": lambda path, victims: path.symlink_to("/dev/zero"),
    "full device": lambda path, victims: path.symlink_to("/dev/full"),
    "file link": lambda path, victims: path.symlink_to(victims / "file"),
    "folder link": lambda path, victims: path.symlink_to(victims / "folder"),
    "dangling": lambda path, victims: path.symlink_to(victims / "missing"),
    "loop": lambda path, victims: path.symlink_to(path),
    "hard link": lambda path, victims: path.hardlink_to(victims / "file"),
    "foreign": lambda path, victims: _foreign(path),
}
FOLDERS = ("file", "pipe", "folder link", "dangling", "loop", "foreign")
"""What may take a folder's place."""
FILES = ("folder", "pipe", "socket", "file link", "dangling", "hard link")
"""What may take a file's place."""

ONCE = ("--once", "--virtual", "1")
DOCTOR = ("doctor", "--virtual", "1", "--for", "1s")
LAUNCH = ("launch", "--", "true")
PRUNE = ("runs", "prune", "--keep", "0", "--yes")
TRAIN = ("train",)
"""A training that tracks itself, see ``_train``."""
PLACES: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]] = {
    "": (
        ("file", "pipe", "socket", "device", "file link", "dangling", "loop", "foreign"),
        (TRAIN, DOCTOR, ("runs",), ("jobs",), LAUNCH),
    ),
    "runs": (FOLDERS, (TRAIN, ONCE, PRUNE)),
    "jobs": (FOLDERS, (("jobs",), LAUNCH)),
    "runs/new": (FOLDERS, (TRAIN, ("runs",))),
    "runs/new/rank-00000.gpr": (FILES, (TRAIN, ("runs",), PRUNE)),
    "runs/old/labels.json": (FILES, (ONCE, ("runs", "show", "old"), ("runs", "rename", "old", "other"))),
    "runs/old/rank-00000.gpr.kept": (FILES, (("runs",), ("runs", "show", "old"))),
    "runs/old/GPU-0.gpu": (FILES, (("runs", "show", "old"),)),
    "config.toml": ((*FILES, "device", "full device", "loop"), (ONCE,)),
}


def _train() -> int:
    """Track a run of one step; what tracking says goes to standard error, and a script's own output comes after it."""
    opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), "new"), Path(os.environ["GPUTOP_DIR"]) / "runs")
    opened.journal.log(loss=1.0)
    opened.finish(form.FINISHED, None)
    return 0


def run(words: Sequence[str], out: Path) -> tuple[int, str]:
    """Run a command in a fork of this process; return its exit code, and what it said on standard error."""
    child = os.fork()
    if not child:
        code = 99
        try:
            os.setsid()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT_S)
            for number, path in ((1, out), (2, out.with_suffix(".err"))):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            code = _train() if words is TRAIN else main(list(words))
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001 - a fork must not go on with the tests
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), f"{words} was still waiting after {LIMIT_S} s, or died of a signal"
    return os.waitstatus_to_exitcode(status), out.with_suffix(".err").read_text("utf-8", "surrogateescape")


def state_of(path: Path) -> tuple[object, ...]:
    """What must not change of a file that is not gputop's."""
    found = path.lstat()
    kind = stat.S_IFMT(found.st_mode)
    content: object = path.read_bytes() if stat.S_ISREG(found.st_mode) else sorted(os.listdir(path)) if path.is_dir() else None
    return kind, found.st_ino, found.st_uid, found.st_mode, content


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place or "state directory")
def test_a_squatted_place_is_told_in_a_sentence_and_never_written_through(
    place: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds, commands = PLACES[place]
    wrong = []
    for kind in kinds:
        room = tmp_path / kind.replace(" ", "-")
        state, victims = room / "state", room / "victims"
        monkeypatch.setenv("GPUTOP_DIR", str(state))
        monkeypatch.setenv("GPUTOP_CONFIG", str(state / "config.toml"))
        (victims / "folder").mkdir(parents=True)
        (victims / "file").write_bytes(SECRET)
        if os.geteuid() == 0:
            os.chown(victims / "file", FOREIGN_UID, FOREIGN_UID)
        if place:
            (state / place).parent.mkdir(parents=True, mode=0o700)
        if place.startswith("runs/old/"):
            opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), "old"), state / "runs")
            opened.journal.log(loss=1.0)
            opened.finish(form.FINISHED, None)
        KINDS[kind](state / place, victims)
        before = [state_of(victims / name) for name in ("file", "folder")]
        for words in commands:
            began = time.time()
            code, said = run(words, room / "out")
            lines = said.splitlines()
            about = (
                f"{place or 'state'} as {kind}: {' '.join(words)}: exit code {code} after {time.time() - began:.0f} s: {said}"
            )
            if (
                code not in ((0,) if words is TRAIN else (0, 1, 2, 3))
                or "Traceback" in said + (room / "out").read_text("utf-8", "surrogateescape")
                or len(lines) > 1 + (words is PRUNE)  # it cannot be read, and not be deleted either
                or any("gputop: " not in line for line in lines)
            ):
                wrong.append(about)
            if [state_of(victims / name) for name in ("file", "folder")] != before:
                wrong.append(f"it touched what is not gputop's: {about}")
            if (victims / "missing").exists() or os.path.lexists(victims / "missing"):
                wrong.append(f"it wrote through a dangling link: {about}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["file", "pipe", "folder link", "dangling", "loop"])
@pytest.mark.parametrize("what", ["runs", "jobs"])
def test_the_list_of_a_squatted_place_is_unknown_and_not_empty(
    what: str, kind: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    monkeypatch.setenv("GPUTOP_DIR", str(state))
    (tmp_path / "folder").mkdir()
    KINDS[kind](state / what, tmp_path)
    for words in [(what,), *[PRUNE] * (what == "runs")]:
        code, said = run(words, tmp_path / "out")
        assert (code, f"The {what} cannot be read: {state / what}: " in said) == (0, True), said
        assert not {"yet", "No"} & set((tmp_path / "out").read_text().split())
    (state / what).unlink()
    assert run((what,), tmp_path / "out") == (0, "")


SCREENS = (("o", " Runs "), ("l", "1 Recipes"), ("f2", "[ Save ]"))
"""The key that opens a screen which reads such a place, and what it shows."""


@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "file link", "folder link", "dangling", "loop", "device", "folder", "state as file"]
)
def test_the_screen_of_a_squatted_place_opens_and_quits(kind: str, tmp_path: Path) -> None:
    state, victims = tmp_path / "state", tmp_path / "victims"
    (victims / "folder").mkdir(parents=True)
    (victims / "file").write_bytes(SECRET)
    if kind == "state as file":
        state.write_bytes(SECRET)
    else:
        state.mkdir(mode=0o700)
        for name in ("runs", "jobs", "layout.json", "config.toml", "commands.json"):
            KINDS[kind](state / name, victims)
    before = [state_of(victims / name) for name in ("file", "folder")]
    environment = {
        "GPUTOP_DIR": str(state),
        "GPUTOP_CONFIG": str(state / "config.toml"),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(REPOSITORY),
    }
    with Terminal([sys.executable, "-m", "gputop", "--virtual", "1", "-i", "1"], environment) as terminal:
        terminal.wait_for("q quit")
        for key, shows in SCREENS:
            terminal.press(key)
            terminal.wait_for(shows)
            terminal.press("escape")
            terminal.wait_for("q quit")
        terminal.press("q")
        assert terminal.wait_exit() == 0, terminal.text()
        assert b"Traceback" not in terminal.received
    assert [state_of(victims / name) for name in ("file", "folder")] == before
    assert not (victims / "missing").exists()
