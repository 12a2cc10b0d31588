"""Commands in a fix: what a person copies from the screen is one printable line that means what was started."""

from __future__ import annotations

import os
import subprocess

from gputop.doctor.findings.fixes import shell_join

WORDS = (
    *("python", "train.py", "--name=a b", "it's", "", "$HOME", "back\\slash", "日本語"),
    *("evil\x1b]0;title\x07", "two\nlines", "\u202eright to left", "both ' and \\ \x85", "\udcff\udc80", "\x1b9f", "\x7f"),
)


def test_a_command_is_one_printable_line_and_means_the_same_to_a_shell() -> None:
    line = shell_join(WORDS)
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True)
    assert [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]] == list(WORDS)
