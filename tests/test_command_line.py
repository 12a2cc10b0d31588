"""What a command line is: a script, or a person who types piece by piece."""

from __future__ import annotations

import pytest

from gputop.command_line import is_session, is_tool


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


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("/usr/bin/python3 /opt/venv/bin/pytest -q tests/test_loss.py", True),
        ("python -m pytest -n 4", True),
        ("/opt/venv/bin/python -u -c import sys;exec(eval(sys.stdin.readline()))", True),
        ("python -m unittest discover", True),
        ("python -m pip install torch", True),
        ("/usr/bin/python3 /opt/venv/bin/jupyter-lab --no-browser", True),
        ("python -m jupyterlab.labapp", True),
        ("python /opt/venv/bin/tensorboard --logdir runs", True),
        ("python -m tensorboard.main --logdir runs", True),
        ("/opt/venv/bin/python /opt/venv/lib/python3.11/site-packages/ray/dashboard/dashboard.py --host=1", True),
        ("/usr/bin/python3 /home/ada/.vscode-server/extensions/ms-python.pylint/bundled/tool/lsp_server.py", True),
        ("python /home/ada/.vscode-server/extensions/ms-python.debugpy/bundled/libs/debugpy/adapter --port 1", True),
        ("python -m ipykernel_launcher -f /run/kernel-1.json", False),
        ("python train.py --tests pytest", False),
        ("python -m package.train", False),
        ("python -m debugpy --listen 5678 train.py", False),
        ("python /home/ada/ray/train.py", False),
        ("python pytest_lightning_model.py", False),
        ("ray::Trainer.train()", False),
        ("python", False),
        ("", False),
    ],
)
def test_a_tool_never_trains(command: str, tool: bool) -> None:
    assert is_tool(command.split(" ")) is tool
    assert not is_tool(None)
