"""Values in the commands of a fix: whatever a log, another user or another machine sends, a shell runs only the template."""

from __future__ import annotations

import importlib
import re
import string
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputop.doctor.findings.commands import filled
from gputop.doctor.logs.patterns.table import PATTERNS
from gputop.snapshot import Snapshot
from tests.doctor import scenes
from tests.doctor.scenes.base import Scene, play

HERE = Path(__file__).parent.parent

HOSTILE = (
    *(
        "$(touch ran)",
        "`touch ran`",
        "; touch ran #",
        "\ntouch ran\n",
        "'; touch ran; '",
        '"; touch ran; "',
        "a' \" b",
        "&& touch ran",
    ),
    *("-oProxyCommand=touch ran", "--help", "x\x1b[2Jy", "a b", "~", "*", "", "\\", "$'\\x3b'", "{name}", "é", "\u202eevil"),
)
QUOTED = re.compile(r"""\$'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|\\.""")
"""A backslash means itself in plain single quotes, and escapes in ``$'...'``."""
NAMES = sorted({name for pattern in PATTERNS for _, name, _, _ in string.Formatter().parse(pattern.fix) if name})


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_one_word_for_a_shell_and_is_never_run(value: str, tmp_path: Path) -> None:
    line = filled("printf '%s\\0' {name} x{name} '{name}' \"{name}\" end  # {name}", {"name": value})
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, cwd=tmp_path)
    words = done.stdout.decode().split("\0")
    assert words[0] in (value, "NAME")
    assert not value.startswith("-") or words[0] == "NAME", "no option of a command"
    assert words[1] in (f"x{value}", "xNAME")
    assert words[2:] in ([value, value, "end", ""], ["NAME", "NAME", "end", ""])
    assert not (tmp_path / "ran").exists()
    assert filled("f({name}) $({name})", {"name": value}) == "f(NAME) $(NAME)"
    assert filled("x; ssh a ls {name}", {"name": value}) == "x; ssh a ls NAME", "a shell there reads it again"


def test_what_is_not_known_is_left_to_the_user() -> None:
    assert filled("ls -l {file}  # {file}", {}) == "ls -l FILE  # N/A"


def test_plain_values_stay_as_they_are() -> None:
    values = {"file": "/data/a-b_c.py", "port": "29500"}
    assert filled("ls {file}; ss 'sport = :{port}'\nf({{'p': {port}}})", values) == (
        "ls /data/a-b_c.py; ss 'sport = :29500'\nf({'p': 29500})"
    )


@example({"arch": "plain", "built": ")\\"})
@given(st.dictionaries(st.sampled_from(NAMES), st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))))
def test_no_text_of_a_log_changes_what_the_command_of_a_fix_does(values: Mapping[str, str]) -> None:
    for pattern in PATTERNS:
        if not any(f"{{{name}}}" in pattern.fix for name in values):
            continue
        fix = pattern.command(values)
        assert len(fix.splitlines()) == len(pattern.fix.splitlines()), pattern.id
        assert all(line.isprintable() for line in fix.splitlines())
        plain = pattern.command(dict.fromkeys(values, "plain"))
        assert _outside_quotes(fix) == _outside_quotes(plain), pattern.id


def _outside_quotes(fix: str) -> str:
    """What a shell reads as more than text: without comments, quoted text and words."""
    lines = [re.sub(r"(^|(?<=[\s;|&]))#.*", "", QUOTED.sub("", line)) for line in fix.splitlines()]
    return "".join(sign for sign in "\n".join(lines) if sign in ";|&$`<>()\n#")


EVIL = ";touch ran;"


def _hostile(value: object) -> object:
    if isinstance(value, dict):
        return {key: _hostile(item) for key, item in value.items()}
    return value + EVIL if isinstance(value, str) else value


@pytest.mark.parametrize("rule", ["A03", "B03", "E01", "G04"])
def test_no_text_of_a_journal_begins_a_command(rule: str) -> None:
    """Facts name lines, classes and variables of a script, and another user may have written them."""
    fixes = []
    for path in sorted(Path(scenes.__file__).parent.rglob("[a-z]*.py")):
        module = importlib.import_module(".".join(("tests.doctor", *path.relative_to(HERE).with_suffix("").parts)))
        for _, _, scene, seconds in (fault for fault in getattr(module, "FAULTS", ()) if fault[0] == rule):
            for found in play(partial(_with_hostile_facts, scene), seconds):
                fixes += [item.fix for item in found if item.id == rule]
    lines = {line for fix in fixes for line in fix.splitlines()}
    assert lines
    assert [line for line in lines if EVIL in re.sub(r"'[^']*'", "", line)] == []


def _with_hostile_facts(scene: Scene, second: int) -> Snapshot:
    shot = scene(second)
    runs = [replace(run, ranks=tuple(replace(rank, facts=_hostile(rank.facts)) for rank in run.ranks)) for run in shot.runs]
    return replace(shot, runs=tuple(runs))
