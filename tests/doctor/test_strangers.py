"""Logs in other people's style: the benchmark judges them, no healthy one is an alarm, and its page shows its own numbers.

The half that is set aside is only measured: a test on its answers would make somebody read it to mend what fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"
NUMBERS = BENCHMARKS / "strangers" / "numbers.json"
EVERY = 10
"""Of the many logs that are set aside, each tenth is judged here."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    """What the benchmark counts on the logs, and what it prints."""
    found = tmp_path_factory.mktemp("strangers") / "numbers.json"
    command = [sys.executable, str(BENCHMARKS / "doctor_strangers.py"), "--logs", "--every", str(EVERY), "--json", str(found)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=REPOSITORY)
    assert found.exists(), ran.stdout + ran.stderr
    return json.loads(found.read_text()), ran.stdout


def test_each_log_belongs_to_a_case(judged: tuple[dict, str]) -> None:
    numbers, _ = judged
    folders = {"first": "strangers", "open": "open_half", "set aside": "set_aside"}
    files = {half: len(list((BENCHMARKS / folder / "logs").glob("*.log"))) for half, folder in folders.items()}
    judged_of = {half: sum(row["cases"] for row in table.values()) for half, table in numbers.items()}
    assert (judged_of["first"], judged_of["open"]) == (files["first"], files["open"])
    assert files["first"] >= 77
    assert files["open"] >= 167
    assert judged_of["set aside"] >= files["set aside"] // EVERY - 1
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); sys.path.insert(0, {str(REPOSITORY)!r})\n"
    code += "from doctor_strangers import _second_set\n"
    code += "print(sum(case.half == 'set aside' for part in _second_set('LOGS') for case in part.LOGS))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert ran.stdout.strip() == str(files["set aside"]), ran.stderr


def test_each_program_has_a_name_of_its_own() -> None:
    """Else a measurement of one program runs the other one, too."""
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); sys.path.insert(0, {str(REPOSITORY)!r})\n"
    code += """
from collections import Counter
from doctor_strangers import _second_set
from accuracy.programs import ALL
names = Counter(program.case.name for program in (*ALL, *(one for part in _second_set("PROGRAMS") for one in part.PROGRAMS)))
print(len(names), *(name for name, times in names.items() if times > 1))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    number, *twice = ran.stdout.split() or ["0"]
    assert int(number) > 300, ran.stderr
    assert not twice


def test_the_name_of_a_log_does_not_help_the_doctor() -> None:
    """A fix that quotes the file's name must not pass for one that names the cause."""
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); sys.path.insert(0, {str(REPOSITORY)!r})\n"
    code += """
from accuracy.cases import ANY, Case, judge
from gputop.doctor.findings.finding import Finding
case = Case("loss-turns-nan", (ANY,), "nan", ("exception",))
plain = dict(confidence="certain", severity="error", title="The script failed", cause="ValueError", evidence=(), refuted_by="-")
print(judge(case, [Finding("exception", fix="read loss-turns-nan.log:3", **plain)]))
print(judge(case, [Finding("exception", fix="the mean is nan: read loss-turns-nan.log:3", **plain)]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert ran.stdout.split() == ["acceptable", "right"], ran.stderr


def test_findings_on_the_runs_of_others_are_no_part_of_a_case() -> None:
    """Others train on the machine, too, and what is found about their runs outlives these."""
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); sys.path.insert(0, {str(REPOSITORY)!r})\n"
    code += """
from accuracy.programs import Own
from gputop.doctor.findings.finding import Finding
from gputop.process import ProcessCurve, ProcessRank, ProcessRun
from gputop.snapshot import Host, Snapshot
run = lambda pid: ProcessRun(f"pid:{pid}", "train.py", (ProcessRank(pid, 0, 0, ()),), run_id=f"run-{pid}")
shot = lambda *runs: Snapshot(1, 0.0, 0.0, 1.0, Host("h"), process_runs=runs)
about = lambda run: Finding("LOG", "error", "certain", "t", (), "c", "f", "r", run=run)
own = Own()
own.see(shot(run(7)), set())  # before the program's processes are known
own.see(shot(run(7), run(9)), {7})
own.see(shot(), {7})
print(*(own.concerns(about(name)) for name in ("run-7", "run-9", "journal", None)))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert ran.stdout.split() == ["True", "False", "True", "True"], ran.stderr


def test_a_program_ends_early_only_if_nothing_may_come_before_its_verdict() -> None:
    """A right verdict that is not certain stands for as long as rules look back: a wrong one must have its time to appear."""
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); sys.path.insert(0, {str(REPOSITORY)!r})\n"
    code += """
from accuracy.programs import stands
from gputop.doctor.findings.finding import Finding
from gputop.doctor.rules.pace.other_work import SPAN_S
said = lambda confidence: [Finding("E07", "warning", confidence, "t", (), "c", "f", "r")]
print(stands(said("certain"), 5), stands(said("certain"), 3))
print(*(stands(said(confidence), seconds) for confidence in ("likely", "possible") for seconds in (SPAN_S, SPAN_S + 1)))
print(stands([], 5))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert ran.stdout.splitlines() == ["True False", "False True False True", "False"], ran.stderr


def test_no_healthy_log_raises_an_alarm(judged: tuple[dict, str]) -> None:
    _, printed = judged
    assert re.findall(r"from the log[^:]*: (\S+) is false alarm", printed) == []


def test_no_case_that_is_set_aside_is_named(judged: tuple[dict, str]) -> None:
    _, printed = judged
    names = {path.stem for path in (BENCHMARKS / "set_aside" / "logs").glob("*.log")}
    assert [name for name in names if name in printed] == []
    assert "set aside, from the log" not in printed


def test_unusual_healthy_work_raises_no_alarm(tmp_path: Path) -> None:
    names = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nfrom accuracy.healthy_scenes import HEALTHY; print(*HEALTHY)"
    known = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    found = tmp_path / "numbers.json"
    command = [sys.executable, str(BENCHMARKS / "doctor_strangers.py"), "--scenes", "--json", str(found), "--only"]
    ran = subprocess.run([*command, *known.split()], capture_output=True, text=True, timeout=280, check=False, cwd=REPOSITORY)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = json.loads(found.read_text())
    assert sum(row["cases"] for row in counts["first"].values()) >= 18
    assert "set aside" not in counts


def test_the_page_shows_the_numbers_of_the_last_run() -> None:
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\nimport doctor_strangers as d, json\n"
    code += f"print(d.table(json.load(open({str(NUMBERS)!r}))), end='')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY).stdout
    _, _, rest = (
        Path(REPOSITORY / "docs" / "doctor-accuracy.md").read_text().partition("<!-- benchmarks/doctor_strangers.py -->\n")
    )
    shown, end, _ = rest.partition("<!-- end -->\n")
    assert end
    assert shown == made
