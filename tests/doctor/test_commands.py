"""Values in the commands of a fix: whatever a log, another user or another machine sends, a shell runs only the template."""

from __future__ import annotations

import re
import string
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.doctor.findings.commands import filled
from gputop.doctor.logs.patterns.table import PATTERNS

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
    lines = [
        re.sub(r"(^|(?<=[\s;|&]))#.*", "", re.sub(r"\$?'(?:[^'\\]|\\.)*'|\"[^\"]*\"|\\.", "", line))
        for line in fix.splitlines()
    ]
    return "".join(sign for sign in "\n".join(lines) if sign in ";|&$`<>()\n#")
