"""What a command line is: a script, or a person who types piece by piece."""

from __future__ import annotations

import pytest

from gputop.command_line import is_session


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("python", True),
        ("/opt/conda/bin/python3.11 -u -i", True),
        ("/usr/bin/python3 /opt/venv/bin/ipython --pylab", True),
        ("python -m ipykernel_launcher -f /run/kernel-1.json", True),
        ("/usr/bin/python3 -m colab_kernel_launcher -f kernel.json", True),
        ("python train.py -i data", False),
        ("python -u -m package.train", False),
        ("python -c pass", False),
        ("python -", False),
        ("/usr/bin/python3 /opt/venv/bin/ipython train.py", False),
        ("/opt/tool/train --epochs 3", False),
        ("", False),
    ],
)
def test_a_session_is_distinguished_from_a_script(command: str, typed: bool) -> None:
    assert is_session(command.split()) == typed


def test_an_unknown_command_is_not_a_session() -> None:
    assert not is_session(None)
