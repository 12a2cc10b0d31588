"""Searching logs: forward, backward, as a person sees the lines, in bounded memory however large the file is."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.jobs.output import search
from gputop.jobs.output.search import find, page


def line_at(path: Path, offset: int | None) -> str | None:
    if offset is None:
        return None
    return path.read_bytes()[offset:].split(b"\n", 1)[0].decode()


def test_forward_and_backward(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"step {number}\n" for number in range(1000)) + "Error: the first\nmore\nERROR: the last\nend\n")
    first = find(log, "error", 0)
    assert line_at(log, first) == "Error: the first"
    assert first is not None
    second = find(log, "error", first + 1)
    assert line_at(log, second) == "ERROR: the last"
    assert second is not None
    assert find(log, "error", second + 1) is None
    assert find(log, "error", second, backwards=True) == first
    assert find(log, "error", first, backwards=True) is None
    assert line_at(log, find(log, "step 999", log.stat().st_size, backwards=True)) == "step 999"
    assert find(tmp_path / "none", "x", 0) is None


def test_escapes_and_carriage_returns_are_seen_as_a_person_sees_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"10%\r50%\r100% done\n\x1b[31mCUDA \x1b[1merror\x1b[0m\n\xc3\x84rger\n")
    assert find(log, "cuda error", 0) == log.read_bytes().index(b"\x1b[31m")
    assert find(log, "50%", 0) is None, "overwritten by what came after it"
    assert find(log, "100% DONE", 0) == 0
    assert line_at(log, find(log, "ärger", 0)) == "Ärger"


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=30), max_size=60), st.integers(1, 9))
def test_pieces_of_any_size_find_what_a_whole_file_holds(lines: list[str], size: int) -> None:
    import tempfile

    before, search.PIECE_BYTES = search.PIECE_BYTES, 8 * size
    try:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            log.write_text("\n".join([*lines, "needle", *lines]) + "\n")
            expected = next(n for n, line in enumerate([*lines, "needle"]) if "needle" in line)
            if 8 * size > max(map(len, [*lines, "needle"])) + 1:
                found = find(log, "needle", 0)
                assert found is not None
                assert log.read_text()[:found].count("\n") == expected
                backward = find(log, "needle", log.stat().st_size, backwards=True)
                assert "needle" in (line_at(log, backward) or "")
    finally:
        search.PIECE_BYTES = before


def test_an_offset_into_a_file_that_was_cut_since(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("needle\n")
    assert find(log, "needle", 7) is None, "the end of the same file"
    assert find(log, "needle", 1000) == 0
    assert page(log, 1000).lines == ("needle",)


def test_a_page_has_whole_lines_and_marks_the_hit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(50_000)))
    offset = find(log, "line 30000", 0)
    assert offset is not None
    found = page(log, offset, 4096, hit=offset)
    assert found.hit is not None
    assert found.lines[found.hit] == "line 30000"
    assert all(line.startswith("line ") for line in found.lines)
    assert found.start <= offset < found.end <= found.size
    assert page(log, 0).lines[0] == "line 0"
    assert page(log, log.stat().st_size).lines[-1] == "line 49999"


def test_a_gigabyte_is_searched_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as file:
        file.write(b"the needle\n")
        file.truncate(2**30)  # a hole: one line of nulls, as long as it gets
        file.seek(0, 2)
        file.write(b"\nthe end\n")
    code = (
        "import resource, sys; from pathlib import Path; from gputop.jobs.output.search import find\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "log = Path(sys.argv[1]); print(find(log, 'needle', log.stat().st_size, backwards=True))\n"
        "print(find(log, 'the end', 0) > 2**30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.split() == ["0", "True", "True"], done.stderr


def test_a_search_can_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PIECE_BYTES", 100)
    log = tmp_path / "log"
    log.write_text("x\n" * 10_000 + "needle\n")
    asked: list[int] = []
    assert find(log, "needle", 0, stop=lambda: bool(asked.append(1)) or len(asked) > 3) is None
    assert len(asked) == 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
