"""The line that ``gputop run`` leaves on a terminal: one, whatever the command started, and none if nobody reads it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import pytest

from tests.packages import needs
from tests.patience import DEADLINE_S
from tests.terminal import Terminal
from tests.tracking.kit import Home, clean_environment, home

assert home
RUN = (sys.executable, "-m", "gputop", "run")
PYTHON = shlex.quote(sys.executable)
PRINTS = "for step in range(25): print('step', step, 'loss:', 5 - step / 25)"
NO_STEP = "gputop: saw no training step: no optimizer of torch stepped, and no line with a loss was printed."
RANKS = """
import os, subprocess, sys
child = "import gputop, os; run = gputop.init(); rank = int(os.environ['RANK'])\\nfor i in range(3): run.log(loss=i + rank)"
for rank in "01":
    subprocess.run([sys.executable, "-c", child], env={**os.environ, "RANK": rank, "WORLD_SIZE": "2", "GPUTOP_RUN_ID": "pair"})
"""


def ends(home: Home, *words: str, **environment: str) -> tuple[int, list[str]]:
    """Run ``gputop run`` with these words in a terminal; return its exit code and the last lines that gputop printed."""
    with Terminal((*RUN, *words), clean_environment(home.state, **environment)) as terminal:
        code = terminal.wait_exit()
        return code, [line for line in terminal.lines() if line.startswith("gputop:")]


def python(code: str) -> Sequence[str]:
    return "--", sys.executable, "-c", code


def test_it_names_the_run_its_steps_and_its_loss(home: Home) -> None:
    line = "gputop: run mine: 25 steps, loss 4.04 -> gputop runs show mine"
    assert ends(home, "--name", "mine", *python(f"{PRINTS}\nraise SystemExit(3)")) == (3, [line])
    own = "import gputop; run = gputop.init(name='my run')\nfor i in range(1, 8): run.log(loss=i, step=i)\n{end}"
    line = "gputop: run my run: 7 steps, loss 7 -> gputop runs show 'my run'"
    assert ends(home, *python(own.format(end=""))) == (0, [line])
    assert ends(home, *python(own.format(end="raise KeyboardInterrupt"))) == (-2, [line])
    (home.state / "ctrl_c.py").write_text(own.format(end="raise KeyboardInterrupt"))
    assert ends(home, "--", sys.executable, str(home.state / "ctrl_c.py")) == (-2, [line])
    line = "gputop: run my run: no training step -> gputop runs show 'my run'"
    assert ends(home, *python("import gputop; gputop.init(name='my run'); 1 / 0")) == (1, [line])


def test_a_command_that_trains_nothing_says_so(home: Home) -> None:
    assert ends(home, *python("print('hello')")) == (0, [NO_STEP])


def test_ranks_have_one_line_together(home: Home) -> None:
    line = "gputop: run pair: 3 steps, loss 2.5 -> gputop runs show pair"
    assert ends(home, "--name", "pair", *python(RANKS)) == (0, [line])


def test_a_shell_script_has_one_line_for_each_training(home: Home) -> None:
    helper, train = f"{PYTHON} -c 'print(1)'", f"{PYTHON} -c {shlex.quote(PRINTS)}"
    line = "gputop: run python: 25 steps, loss 4.04 -> gputop runs show python"
    assert ends(home, "--", "sh", "-c", f"{helper}; {train}; {train}; {helper}") == (0, [line, line])


def test_a_command_that_trains_several_times_says_how_often(home: Home) -> None:
    several = "import gputop\nfor number in range(3):\n    with gputop.init(name=f'fold{number}') as run: run.log(loss=number)"
    line = "gputop: run fold2: 1 step, loss 2 (and 2 more runs) -> gputop runs show fold2"
    assert ends(home, *python(several)) == (0, [line])


@pytest.mark.parametrize(
    "setting", ["GPUTOP_SILENT=1", "GPUTOP=0", "GPUTOP_MODE=disabled", "GPUTOP_JOB_ID=a-job", "redirected"]
)
def test_it_is_not_printed_where_it_is_unwanted(home: Home, setting: str) -> None:
    name, _, value = setting.partition("=")
    if name == "redirected":
        shell = f"{PYTHON} -m gputop run -- {PYTHON} -c {shlex.quote(PRINTS)} 2> {shlex.quote(str(home.state))}.err"
        with Terminal(("sh", "-c", shell), clean_environment(home.state)) as terminal:
            assert terminal.wait_exit() == 0
            assert "gputop" not in terminal.text()
        assert home.state.with_name("state.err").read_text() == ""
    else:
        assert ends(home, *python(PRINTS), **{name: value}) == (0, [])


BACKWARDS = """
import torch, sys
weight = torch.ones(4, requires_grad=True)
for step in range(5):
    weight.grad = None
    weight.square().sum().backward()
    weight.data -= 0.1 * weight.grad
raise SystemExit(int(sys.argv[1]))
"""


@needs("torch")
@pytest.mark.warm
def test_a_training_without_a_step_says_so_also_where_its_output_is_kept(home: Home) -> None:
    home.state.mkdir()
    train, log = home.state / "train.py", home.state / "log"
    train.write_text(BACKWARDS)
    command = (*RUN, "--", sys.executable, str(train))
    line = "gputop: run train: no training step -> gputop runs show train"
    both = home.finish((*command, "0"), home.state)
    assert (both.returncode, both.stdout, both.stderr) == (0, "", f"{line}\n")
    with Terminal(
        ("sh", "-c", f"{shlex.join(command)} 3 > {shlex.quote(str(log))}"), clean_environment(home.state)
    ) as terminal:
        assert terminal.wait_exit() == 3
        terminal.wait_for("runs show train", timeout_s=DEADLINE_S)
        assert [text for text in terminal.lines() if text] == [line]
    shown = home.finish((sys.executable, "-m", "gputop", "runs", "show", "train"), home.state).stdout
    assert "warning: gputop saw no training step: backward ran, but no optimizer of torch stepped." in shown
    assert ", failed, exit code 3, step N/A)" in shown
    assert home.run("import torch", command=(*RUN, "--", sys.executable)) == (0, "", f"{NO_STEP}\n")


@pytest.mark.parametrize(
    "code", ["import sys; sys.modules['torch'] = None", "import torch", "try: import torch.broken\nexcept ImportError: pass"]
)
def test_where_its_output_is_kept_a_program_without_torch_says_nothing(home: Home, code: str) -> None:
    (home.state / "torch").mkdir(parents=True)
    (home.state / "torch" / "__init__.py").write_text("# another module of this name\n")
    assert home.run(code, command=(*RUN, "--", sys.executable)) == (0, "", "")


def test_a_run_that_cannot_be_stored_is_not_reported_as_having_no_step(home: Home) -> None:
    own = "import gputop; run = gputop.init()\nfor i in range(3): run.log(loss=i)"
    for train in (own, PRINTS):
        code, lines = ends(home, *python(train), GPUTOP_DIR="/proc/nowhere")
        assert code == 0
        assert [line.partition(":")[2].partition(":")[0] for line in lines] == [" the run is shown while it lasts but not kept"]


def test_neither_the_script_nor_its_children_see_how_it_is_done(home: Home) -> None:
    look = (
        "import os, sys\nprint([n for n in os.environ if 'END_LINE' in n], [m for m in sys.modules if 'tracking.reader' in m])"
    )
    inner = f"import subprocess, sys\n{look}\nsubprocess.run([sys.executable, '-c', {look!r}])"
    with Terminal((*RUN, *python(inner)), clean_environment(home.state)) as terminal:
        assert terminal.wait_exit() == 0
        assert terminal.lines()[:3] == ["[] []", "[] []", NO_STEP]
