"""What gputop says when Python cannot read the bytecode that it has written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.startup.bytecode import advice

REPOSITORY = Path(__file__).parent.parent.parent


def _run(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache), "GPUTOP_DIR": str(cache / "state")}
    command = [sys.executable, *words]
    return subprocess.run(command, env=os.environ | given, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.interpreter
@pytest.mark.parametrize("length", [16, 999, 1000, 1001])
@pytest.mark.parametrize(
    ("damaged", "words", "code"),
    [
        ("cli/main", ("-m", "gputop", "runs"), 1),
        ("tracking/run", ("-c", "import gputop; gputop.init().log(loss=1.0)"), 0),
    ],
    ids=["command", "training"],
)
def test_damaged_bytecode_is_told_with_what_to_do(
    tmp_path: Path, damaged: str, words: tuple[str, ...], code: int, length: int
) -> None:
    cache = tmp_path / "cache"
    assert _run(cache, *words).returncode == 0
    (file,) = cache.rglob(f"gputop/{damaged}.*.pyc")
    file.write_bytes(file.read_bytes()[:length])
    done = _run(cache, *words)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert f"Delete them: find {shlex.quote(str(REPOSITORY / 'gputop'))} -name '*.pyc' -delete" in done.stderr


def test_other_errors_are_not_taken_for_damaged_bytecode() -> None:
    assert advice(EOFError("EOF when reading a line")) is None
    assert advice(ImportError("bad marshal data")) is None
    assert advice(ValueError("bad marshal data (unknown type code)")) is not None
