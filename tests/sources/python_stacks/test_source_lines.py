"""The source lines of real processes: which files are read, and what of a line is shown."""

from __future__ import annotations

import os
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


def test_a_line_of_the_user_s_own_file_is_read(script: Path) -> None:
    found = lines()
    assert found.text(str(script), 3) == "gc.collect()"
    assert [found.text(str(script), line) for line in (0, 2, 4, 5)] == [None] * 4
    script.unlink()
    assert found.text(str(script), 3) == "gc.collect()", "it is remembered"


def test_a_relative_path_begins_where_the_process_is(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    assert lines().text("train.py", 1) == "import gc"


def test_a_file_that_has_changed_since_the_process_started_is_not_quoted(script: Path) -> None:
    assert SourceLines(os.getpid(), time.time() - LATER_S).text(str(script), 1) is None


def test_what_is_no_moderate_file_of_the_user_is_left_alone(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = script.parent
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to(script)
    (folder / "large.py").write_bytes(b"x = 1\n" * (FILE_MAX_BYTES // 6 + 1))
    (folder / "wide.py").write_bytes(b"x" * 5000)
    for name in ("pipe.py", "link.py", "large.py", "wide.py", "missing.py", "."):
        assert lines().text(str(folder / name), 1) is None, name
    for path in ("/dev/null", "<string>", "<frozen runpy>", "with\0zero"):
        assert lines().text(path, 1) is None, path
    real = os.fstat

    def of_another_user(handle: int) -> os.stat_result:
        found = list(real(handle))
        found[4] += 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another_user)
    assert lines().text(str(script), 1) is None


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
