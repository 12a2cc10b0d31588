"""Logs in other people's style: the benchmark judges them, no healthy one is an alarm, and its page shows its own numbers.

The half that is set aside is only measured: a test on its answers would make somebody read it to mend what fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"
NUMBERS = BENCHMARKS / "strangers" / "numbers.json"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What the benchmark counts on the logs."""
    found = tmp_path_factory.mktemp("strangers") / "numbers.json"
    command = [sys.executable, str(BENCHMARKS / "doctor_strangers.py"), "--logs", "--json", str(found)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=REPOSITORY)
    assert found.exists(), ran.stdout + ran.stderr
    return json.loads(found.read_text())


def test_each_log_belongs_to_a_case(numbers: dict) -> None:
    folders = {"first": "strangers", "open": "open_half", "set aside": "set_aside"}
    files = {half: len(list((BENCHMARKS / folder / "logs").glob("*.log"))) for half, folder in folders.items()}
    assert {half: table["from the log"]["cases"] for half, table in numbers.items()} == files
    assert files["first"] >= 77
    assert files["open"] >= 30
    assert files["set aside"] >= 30


def test_no_healthy_log_is_an_alarm(numbers: dict) -> None:
    assert numbers["first"]["from the log"]["false alarm"] == 0


def test_healthy_work_in_odd_shapes_is_no_alarm(tmp_path: Path) -> None:
    names = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nfrom _stranger_healthy import HEALTHY; print(*HEALTHY)"
    known = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    found = tmp_path / "numbers.json"
    command = [sys.executable, str(BENCHMARKS / "doctor_strangers.py"), "--scenes", "--json", str(found), "--only"]
    ran = subprocess.run([*command, *known.split()], capture_output=True, text=True, timeout=120, check=False, cwd=REPOSITORY)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = json.loads(found.read_text())
    assert sum(row["cases"] for row in counts["first"].values()) >= 18
    assert "set aside" not in counts


def test_the_page_shows_the_numbers_of_the_last_run() -> None:
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nimport doctor_strangers as d, json\n"
    code += f"print(d.page(json.load(open({str(NUMBERS)!r}))), end='')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    assert Path(REPOSITORY / "docs" / "doctor-accuracy.md").read_text() == made
