"""The proof of the doctor is run: scenes by the benchmark itself, and faults as real jobs, among them a healthy one."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.doctor.evidence import windows
from gputop.doctor.roots import is_rooted_in
from gputop.doctor.rules import GROUP_RULES, HIDES
from tests import REPOSITORY
from tests.doctor.rules.test_covered import ROOMS
from tests.doctor.scenes import pace
from tests.doctor.scenes.base import ids, play
from tests.doctor.scenes.live import FAULTS, HEALTHY, hides_in_the_script
from tests.packages import needs


def accuracy(tmp_path: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run the benchmark and return its exit code, what it wrote, and what it printed."""
    found = tmp_path / "accuracy.json"
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "doctor_accuracy.py"), *options, "--json", str(found)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False, cwd=REPOSITORY)
    text = ran.stdout + ran.stderr
    return ran.returncode, json.loads(found.read_text()) if found.exists() else {}, text


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_faults_of_real_jobs_are_named_first(rule, name, scene, seconds):
    said = play(scene, seconds)
    assert ids(said[-1])[:1] == [rule], [(item.id, item.title) for item in said[-1]]
    # What it explains may stand before it: a root hides only once it is shown.
    assert {found[0].id for found in said if found and found[0].confidence != "possible"} <= {rule, *HIDES.get(rule, ())}


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[item[0] for item in HEALTHY])
def test_look_alikes_of_real_jobs_are_left_alone(name, scene, seconds):
    assert {item.id for found in play(scene, seconds) for item in found if item.confidence != "possible"} == set()


def test_a_mask_of_the_script_is_named_with_the_line_to_remove():
    finding = play(hides_in_the_script, 12)[-1][0]
    assert finding.title == "The script hides GPUs: GPUTOP_VIRTUAL_DEVICES shows 1 of 2 GPUs"
    assert "remove from the script the line that sets GPUTOP_VIRTUAL_DEVICES to 0" in finding.fix
    assert finding.evidence[0].text == "the script sets GPUTOP_VIRTUAL_DEVICES=0; at launch it was 0,1"


def test_regular_stalls_are_found_among_others_but_not_among_random_ones():
    assert windows.regular([1201, 1221, 1241, 1249, 1261, 1281, 1301, 1321, 1341, 1361, 1381, 1401, 1405, 1421], 0.1)
    assert not windows.regular([1201, 1214, 1241, 1249, 1272, 1281, 1310, 1321, 1349, 1361, 1388, 1401, 1405, 1431], 0.1)


def test_rules_that_run_rarely_have_long_windows():
    assert {rule.id for rule in GROUP_RULES if rule.every_s} >= {"E07", "C11", "E06"}
    assert not any(rule.every_s for rule in GROUP_RULES if rule.id in ("A01", "A07", "C01", "C03"))


def parametrized() -> set[int]:
    """The rows with which tests of the rules, and those above, are parametrized: they judge them as strictly as here."""
    paths = sorted((REPOSITORY / "tests" / "doctor" / "rules").rglob("test_*.py"))
    names = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in paths]
    modules = [sys.modules[__name__], *map(importlib.import_module, names)]
    marks = [mark for module in modules for item in vars(module).values() for mark in getattr(item, "pytestmark", ())]
    return {id(row) for mark in marks if mark.name == "parametrize" for row in mark.args[1]}


def test_every_scene_that_no_other_test_plays_is_judged_right(tmp_path):
    """The look-alikes of a room with pairs are the pairs of test_covered.py; the scenes of test_healthy.py are its own."""
    known = parametrized()
    tables = [getattr(room, table, ()) for room in ROOMS for table in ("FAULTS", "HEALTHY")]
    tables += [getattr(room, "LOOK_ALIKES", ()) for room in ROOMS if not hasattr(room, "PAIRS")]
    names = {row[-3] for table in tables for row in table if id(row) not in known}
    assert len(known) > 200
    sample = ("idle machine", pace.LOOK_ALIKES[0][1], pace.FAULTS[0][1])
    code, found, text = accuracy(tmp_path, "--scenes", "--only", *sorted(names), *sample)
    assert [item["scene"] for item in found["scenes"] if not item["right"]] == [], text
    assert code == 0
    assert {item["scene"] for item in found["scenes"]} >= {*names, *sample}
    assert {item["kind"] for item in found["scenes"]} == {"fault", "look-alike", "healthy"}


@needs("torch")
@pytest.mark.parametrize("recipe", ["faults/mask-in-script", "faults/unused-parameters"])  # tests/test_main_job.py has A07
def test_a_fault_is_named_first_of_a_real_job(tmp_path, recipe):
    code, found, text = accuracy(tmp_path, "--live", "--only", recipe, "--seconds", "70")
    assert [item["truth"] == item["verdict"] for item in found["live"]] == [True], text
    assert code == 0
    assert found["live"][0]["delay_s"] is not None


STOPPED_MIDWAY = """
import sys, time, os, signal
import doctor_accuracy as accuracy
from accuracy.live import Outcome

def watch(truth, seconds, *, hardware):
    seen.append(truth)
    if len(seen) == 1:
        return Outcome(truth)
    if len(seen) == 2:
        raise OSError("no such case")
    if len(seen) == 3:
        time.sleep(60)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

seen = []
accuracy.watch, accuracy.LIMIT_S = watch, 0.5
sys.argv = ["doctor_accuracy.py", "--live", "--seconds", "0.5", "--json", sys.argv[1], "--only", "ddp", "single", "fsdp"]
sys.exit(accuracy.main())
"""


def test_results_are_kept_if_it_is_stopped_and_no_case_takes_others_along(tmp_path):
    found = tmp_path / "accuracy.json"
    path = {"PYTHONPATH": f"{REPOSITORY / 'benchmarks'}:{REPOSITORY}"}
    command = [sys.executable, "-c", STOPPED_MIDWAY, str(found)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env={**os.environ, **path})
    assert ran.returncode == 130, ran.stdout + ran.stderr
    rows = json.loads(found.read_text())["live"]
    assert [row["failed"] for row in rows] == ["", "OSError: no such case", "TimeoutError: not done after 1.5 s"]
    assert [row["right"] for row in rows] == [True, False, False]
    assert "1 of 3 right" in ran.stdout


def test_an_unknown_name_is_refused(tmp_path):
    code, _, text = accuracy(tmp_path, "--only", "no-such-fault")
    assert code == 2
    assert "no-such-fault" in text


def test_two_rules_that_explain_each_other_leave_one():
    pairs = [(root, symptom) for root, symptoms in HIDES.items() for symptom in symptoms if root in HIDES.get(symptom, ())]
    assert pairs
    for root, symptom in pairs:
        assert is_rooted_in(root, symptom) != is_rooted_in(symptom, root)
