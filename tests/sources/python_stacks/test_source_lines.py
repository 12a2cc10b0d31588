"""The source lines of real processes: which files are read, and what of a line is shown."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from gputop.sources.python_stacks.source_lines import CHARACTERS_MAX, FILE_MAX_BYTES, SourceLines, shown

LATER_S = 60.0


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import gc\n\n    gc.collect()  # otherwise it runs out of memory\n", encoding="utf-8")
    return path


def lines() -> SourceLines:
    """Those of this process, as if it had started after the file was written."""
    return SourceLines(os.getpid(), time.time() + LATER_S)


def read(found: SourceLines, path: str, line: int) -> str | None:
    """Ask for a line, and again once it has been read, perhaps after another one."""
    for _ in range(2):
        found.text(path, line)
        for thread in threading.enumerate():
            if thread.name == "source-lines":
                thread.join(20)
    return found.text(path, line)


def test_a_line_of_the_user_s_own_file_is_read(script: Path) -> None:
    found = lines()
    assert read(found, str(script), 3) == "gc.collect()"
    assert [read(found, str(script), line) for line in (0, 2, 4, 5)] == [None] * 4
    script.unlink()
    assert found.text(str(script), 3) == "gc.collect()", "it is remembered"


def test_a_file_system_that_hangs_holds_up_nobody(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, goes_on = os.lstat, threading.Event()

    def hangs(path: str) -> os.stat_result:
        goes_on.wait(60)
        return real(path)

    monkeypatch.setattr(os, "lstat", hangs)
    found = lines()
    assert [found.text(str(script), line) for line in (1, 3, 1)] == [None] * 3
    assert sum(thread.name == "source-lines" for thread in threading.enumerate()) == 1
    goes_on.set()
    assert read(found, str(script), 3) == "gc.collect()"


def test_a_relative_path_begins_where_the_process_is(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    assert read(lines(), "train.py", 1) == "import gc"


def test_a_file_that_has_changed_since_the_process_started_is_not_quoted(script: Path) -> None:
    assert read(SourceLines(os.getpid(), time.time() - LATER_S), str(script), 1) is None


def test_what_is_no_moderate_file_of_the_user_is_left_alone(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = script.parent
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to(script)
    (folder / "large.py").write_bytes(b"x = 1\n" * (FILE_MAX_BYTES // 6 + 1))
    (folder / "wide.py").write_bytes(b"x" * 5000)
    for name in ("pipe.py", "link.py", "large.py", "wide.py", "missing.py", "."):
        assert read(lines(), str(folder / name), 1) is None, name
    for path in ("/dev/null", "<string>", "<frozen runpy>", "with\0zero"):
        assert read(lines(), path, 1) is None, path
    real = os.fstat

    def of_another_user(handle: int) -> os.stat_result:
        found = list(real(handle))
        found[4] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another_user)
    assert read(lines(), str(script), 1) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\t\tloss.item()", "loss.item()"),
        ("x = f('short', 'a string that is long')  # why", "x = f('short', '…')"),
        ('wandb.login(key="0123456789abcdef")', 'wandb.login(key="…")'),
        ('wandb.login(key="0123456789abcdef', 'wandb.login(key="…"'),  # it goes on in the next line
        ("print(f'step {step} loss {loss.item():.3f}')", "print(f'…{step}…{loss.item():.3f}…')"),
        ('split("#")[0]  # don\'t', 'split("#")[0]'),
        ('call("""of several lines', 'call("""…"""'),
        ("\x1b[31mprint()\x07", "print()"),
        ("  # a comment", None),
        ("", None),
    ],
)
def test_a_line_is_shown_short_and_without_what_may_be_secret(line: str, text: str | None) -> None:
    assert shown(line) == text


def test_a_long_line_is_cut() -> None:
    found = shown("total = " + " + ".join(f"part_{number}" for number in range(20)))
    assert found is not None
    assert (len(found), found[-1]) == (CHARACTERS_MAX, "…")
