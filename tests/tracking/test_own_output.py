"""What a program prints under ``gputop run``, if nothing else shows its training."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, clean_environment, home, read_all

assert home
RUN = (sys.executable, "-m", "gputop", "run", "--")
AUTO = {"GPUTOP_AUTO": "1"}

PRINTS = """
print("Namespace(lr=0.1)")
for epoch in range(2):
    print(f"Epoch {epoch + 1}/2")
    for step in range(5):
        print(f"step {step}/5", "loss:", 1 / (1 + step + 5 * epoch))
print("done")
"""
BAR = r"""
import sys
for step in range(1, 21):
    sys.stderr.write(f"\rtraining: {step * 5:3d}%|###| {step}/20 [00:01<00:00, 9.9it/s, loss={1 / step}]")
    sys.stderr.flush()
sys.stderr.write("\n")
"""
NUMPY_LIKE = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
for step in range(0, 40, 10):
    logging.info("iter %d: train loss %.4f", step, 1 / (step + 1))
"""


def test_a_program_without_torch_gets_a_curve_from_what_it_prints(home: Home) -> None:
    plain = home.run(PRINTS)
    assert home.run(PRINTS, command=(*RUN, sys.executable), **AUTO) == plain
    (archive,) = home.archives()
    assert read_all(archive).series["loss"] == [(step, 1 / (1 + step)) for step in range(10)]
    run = home.only_run()
    assert (run.name, run.state) == ("script1", "finished")
    assert run.ranks[0].facts["source"] == "log"
    assert run.ranks[0].facts["progress"]["total_steps"] == 10


@pytest.mark.parametrize(
    ("script", "loss"),
    [(BAR, [(step, 1 / step) for step in range(1, 21)]), (NUMPY_LIKE, [(0, 1.0), (10, 0.0909), (20, 0.0476), (30, 0.0323)])],
    ids=["bar on stderr", "logging"],
)
def test_bars_and_loggers_are_heard(home: Home, script: str, loss: list[tuple[int, float]]) -> None:
    plain = home.run(script)
    assert home.run(script, command=(*RUN, sys.executable), **AUTO) == plain
    assert next(iter(read_all(home.archives()[0]).series.values())) == loss


def test_it_ends_as_the_program_does(home: Home) -> None:
    assert home.run(PRINTS + "import sys; sys.exit(3)", command=(*RUN, sys.executable), **AUTO)[0] == 3
    rank = home.only_run().ranks[0]
    assert (rank.state, rank.exit_code) == ("failed", 3)


def test_a_program_without_free_descriptors_prints_on(home: Home) -> None:
    script = f"import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n{PRINTS}"
    plain = home.run(script)
    assert plain[0] == 0
    assert home.run(script, command=(*RUN, sys.executable), **AUTO) == plain, "the parser's modules cannot be imported"


NOT_HEARD = {
    "prose": "for n in range(9): print('the loss of accuracy in 2023 was', n)",
    "one line": "print('loss: 0.5')",
    "nothing measured": "for n in range(30_000): print(n)",
    "the child of a fork": "import os\nif os.fork() == 0: [print('step', n, 'loss', 0.5) for n in range(5)]\nelse: os.wait()",
    "a stream of its own": "import io, sys\nsys.stdout = io.StringIO()\n[print('step', n, 'loss: 0.5') for n in range(5)]",
}


@pytest.mark.parametrize("kind", NOT_HEARD)
def test_a_program_that_does_not_train_opens_no_run(home: Home, kind: str) -> None:
    code, _, err = home.run(NOT_HEARD[kind], command=(*RUN, sys.executable), **AUTO)
    assert (code, err) == (0, "")
    assert not home.archives()


def test_a_launched_job_is_read_from_its_files_alone(home: Home) -> None:
    assert home.run(PRINTS, command=(*RUN, sys.executable), GPUTOP_JOB_ID="job", **AUTO)[0] == 0
    assert home.run(PRINTS, command=(*RUN, sys.executable), GPUTOP_AUTO="0")[0] == 0
    assert not home.archives()


def test_a_run_that_the_script_opens_is_the_only_one_that_continues(home: Home) -> None:
    script = PRINTS + "import gputop\nrun = gputop.init(name='own')\nrun.log(loss=2.0, step=7)\n" + PRINTS
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    first, second = sorted(home.archives(), key=os.path.getmtime)
    assert len(read_all(first).series["loss"]) == 10
    assert read_all(second).series["loss"] == [(7, 2.0)]


def test_the_stream_is_what_it_was(home: Home) -> None:
    script = """
import sys
print(type(sys.stdout).__name__, sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.write("x") == 1, sys.stdout.name)
print(sys.stdout.write.__name__, sys.stderr.write.__qualname__, sys.stdout.write.__doc__)
for n in range(25_000): print(n)
try:
    sys.stdout.write(1)
except TypeError as error:
    print(error)
"""
    assert home.run(script, command=(*RUN, sys.executable), **AUTO) == home.run(script)


@needs("torch")
@pytest.mark.warm
def test_automatic_tracking_recognizes_a_torch_training(home: Home) -> None:
    script = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    loss = model(torch.ones(2, 4)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("step", step, "loss:", loss.item())
"""
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    (archive,) = home.archives()
    assert "step_s" in read_all(archive).series
    assert "source" not in home.only_run().ranks[0].facts


@needs("torch")
@pytest.mark.warm
def test_automatic_tracking_takes_the_place_of_printed_lines(home: Home) -> None:
    script = (
        PRINTS
        + """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.ones(2, 4)).pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("step", step, "loss:", loss.item())
"""
    )
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    printed, tracked = sorted((read_all(path).series for path in home.archives()), key=lambda found: "step_s" in found)
    assert (len(printed["loss"]), "step_s" in printed) == (10, False)
    assert (len(tracked["loss"]), "step_s" in tracked) == (5, True)


EVALUATES = """
import sys
import torch
{before}
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    for step in range(10):
        loss = model(torch.ones(2, 4)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    sides = f"train_loss: {{loss.item():.4f}} - train_acc: 0.75", f"val_loss: {{epoch / 2}} - val_acc: 0.{{epoch}}5"
    line = f"Epoch {{epoch}} - {{' - '.join(sides)}}"
    {line}
"""


@needs("torch")
@pytest.mark.parametrize("job", [{}, {"GPUTOP_JOB_ID": "job-1"}], ids=["gputop run", "a launched job"])
def test_a_tracked_training_gets_the_evaluations_that_it_prints(home: Home, job: dict[str, str]) -> None:
    script = EVALUATES.format(before="", line="print(line)")
    plain = home.run(script)
    assert home.run(script, command=(*RUN, sys.executable), **AUTO, **job) == plain
    (archive,) = home.archives()
    found = read_all(archive).series
    assert found["val_acc"] == [(9, 0.05), (19, 0.15), (29, 0.25), (39, 0.35)], "at the steps before them"
    assert [value for _, value in found["val_loss"]] == [0.0, 0.5, 1.0, 1.5]
    assert [value for _, value in found["train_acc"]] == [0.75] * 4
    assert len(found["loss"]) == 40, "that of each step, and no mean of an epoch"
    assert "train_loss" not in found


@needs("torch")
def test_an_evaluation_in_a_bar_that_is_drawn_again_counts_once(home: Home) -> None:
    script = EVALUATES.format(
        before="", line=r"[sys.stderr.write(f'\r{line}') for _ in range(20)]; print('\r', file=sys.stderr)"
    )
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    assert [value for _, value in read_all(home.archives()[0]).series["val_loss"]] == [0.0, 0.5, 1.0, 1.5]


@needs("torch")
@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("from gputop.tracking.auto import framework_metrics; framework_metrics._heard.add('a trainer')", "print(line)"),
        ("import threading", "thread = threading.Thread(target=print, args=(line,)); thread.start(); thread.join()"),
    ],
    ids=["a framework logs them", "another thread prints them"],
)
def test_evaluations_are_left_alone_where(home: Home, before: str, line: str) -> None:
    assert home.run(EVALUATES.format(before=before, line=line), command=(*RUN, sys.executable), **AUTO)[0] == 0
    found = read_all(home.archives()[0]).series
    assert len(found["loss"]) == 40
    assert not {"val_loss", "val_acc", "train_acc"} & found.keys()


@needs("torch")
def test_a_run_of_the_script_has_only_the_evaluations_that_it_logs(home: Home) -> None:
    script = EVALUATES.format(before="import gputop; run = gputop.init()", line="print(line); run.log({'val_f1': 0.5})")
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    found = read_all(home.archives()[0]).series
    assert "val_f1" in found
    assert "val_acc" not in found


AMID_STEPS = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model.weight.register_hook(lambda gradient: print("in backward: val_loss: 0.5"))
said = []
for step in range(150):
    optimizer.zero_grad()
    print("before forward: val_loss:", step)
    loss = model(torch.randn(2, 4)).pow(2).mean()
    print("before backward: val_loss:", step + 0.25)
    loss.backward()
    print("before the step: val_loss:", step + 0.75)
    optimizer.step()
    said.append(loss.item())
print(said)
"""


@needs("torch")
def test_evaluations_that_are_printed_amid_a_step_change_no_loss(home: Home) -> None:
    plain = home.run(AMID_STEPS)
    tracked = home.run(AMID_STEPS, command=(*RUN, sys.executable), **AUTO)
    assert tracked == plain
    said = json.loads(plain[1].splitlines()[-1])
    found = read_all(home.archives()[0]).series
    assert found["loss"] == [(step, pytest.approx(loss)) for step, loss in enumerate(said)]
    assert {value for _, value in found["val_loss"]} >= {149.0, 149.25, 149.75}


WITHOUT_OPTIMIZER = """
import torch
weight = torch.ones(4, requires_grad=True)
for step in range(30):
    loss = (weight * 2).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        weight -= 0.01 * weight.grad
        weight.grad = None
    print("step", step, "loss:", round(loss.item(), 3))
"""


@needs("torch")
@pytest.mark.warm
def test_a_training_without_an_optimizer_is_reported_by_automatic_tracking(home: Home) -> None:
    assert home.run(WITHOUT_OPTIMIZER, command=(*RUN, sys.executable), **AUTO)[0] == 0
    (archive,) = home.archives()
    assert "source" not in home.only_run().ranks[0].facts
    losses = [loss for _, loss in read_all(archive).series["loss"]]
    assert losses == pytest.approx([16 * 0.92 ** (2 * step) for step in range(30)], rel=1e-5)


@pytest.mark.parametrize(("lines", "end", "code"), [(30, "", None), (9, "sys.exit(3)", 3), (9, "raise ValueError('no')", 1)])
def test_a_torch_training_without_hooks_is_recognized_by_its_output(home: Home, lines: int, end: str, code: int | None) -> None:
    (home.state / "torch").mkdir(parents=True)
    (home.state / "torch" / "__init__.py").write_text("")  # nothing that hooks could listen to
    script = f"import sys, torch\nfor step in range({lines}): print('step', step, 'loss:', 0.5)\n{end}\n"
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == (code or 0)
    assert read_all(home.archives()[0]).series["loss"] == [(step, 0.5) for step in range(lines)]
    run = home.only_run()
    assert run.ranks[0].facts["source"] == "log"
    assert (run.state, run.ranks[0].exit_code) == ("failed", code) if code else run.state == "finished"


@pytest.mark.parametrize(("lines", "minutes"), [(3, 1), (9, 0), (2, 9)])
def test_a_torch_training_that_prints_seldom_is_recognized_sooner(home: Home, lines: int, minutes: int) -> None:
    (home.state / "torch").mkdir(parents=True)
    (home.state / "torch" / "__init__.py").write_text("")
    script = f"""
import os, sys, time, torch
clock, passed = time.perf_counter, 0
time.perf_counter = lambda: clock() + passed
for step in range({lines}):
    print('step', step, 'loss:', 0.5, flush=True)
    passed += 60 * {minutes}
os._exit(0)  # nothing is opened at the exit
"""
    assert home.run(script, command=(*RUN, sys.executable), **AUTO)[0] == 0
    assert [read_all(path).series["loss"] for path in home.archives()] == [[(0, 0.5), (1, 0.5), (2, 0.5)]] * (lines == 3)


EVALUATES_FIRST = """
import sys, time, torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
clock, passed = time.perf_counter, 0
time.perf_counter = lambda: clock() + passed
for part in range(4):
    print('part', part, 'loss:', 0.5, flush=True)
    passed += 60
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


@needs("torch")
@pytest.mark.warm
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_an_evaluation_before_the_first_step_leaves_no_run_of_its_own(home: Home, optimizer: str) -> None:
    assert home.run(EVALUATES_FIRST.format(optimizer=optimizer), command=(*RUN, sys.executable), **AUTO)[0] == 0
    (archive,) = home.archives()
    assert len(read_all(archive).series["loss"]) == 3
    assert "source" not in home.only_run().ranks[0].facts


FAILS_TO_PRINT = {
    "pipe": ("for n in range(100_000): print('line', n)", "| head -n 1"),
    "full device": ("for n in range(100_000): print('line', n)", "> /dev/full"),
    "not ASCII": ("print('l\\xf6ss: 0.5')", ""),
    "closed": ("import sys; sys.stdout.close(); print('loss: 0.5')", ""),
    "no text": ("import sys; sys.stdout.write(0.5)", ""),
    "told by the script": (
        """
import traceback
def tell(text):
    print(text)
for _ in range(3):
    try:
        tell('l\\xf6ss: 0.5')
    except UnicodeEncodeError:
        traceback.print_exc()
""",
        "",
    ),
}
KEEPS_TRACEBACK = pytest.mark.skipif(sys.version_info < (3, 11), reason="an error that is raised again gets its old traceback")


@KEEPS_TRACEBACK
@pytest.mark.parametrize("kind", FAILS_TO_PRINT)
def test_a_print_that_fails_is_reported_as_without_gputop(tmp_path: Path, kind: str) -> None:
    code, rest = FAILS_TO_PRINT[kind]
    (tmp_path / "script.py").write_text(code)
    said = []
    for before in ((), RUN):
        done = subprocess.run(
            f"{shlex.join((*before, sys.executable, 'script.py'))} {rest}",
            shell=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=clean_environment(tmp_path, PYTHONIOENCODING="ascii", **AUTO),
            timeout=180,
            check=False,
        )
        said.append((done.stdout, done.stderr))
    assert "Error" in said[0][1]
    assert said[1] == said[0]


INTERRUPTED = """
import signal, sys, traceback
class Late(Exception):
    pass
def handle(*ignored):
    raise Late
signal.signal(signal.SIGALRM, handle)
seen = set()
for _ in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while True:
            print("step 1 loss: 0.5")
    except Late as error:
        seen.update(frame.name for frame in traceback.extract_tb(error.__traceback__))
print(*sorted(seen), file=sys.stderr)
"""


@KEEPS_TRACEBACK
def test_what_a_signal_handler_raises_in_a_print_shows_no_call_of_gputop(home: Home) -> None:
    code, _, err = home.run(INTERRUPTED, command=(*RUN, sys.executable), **AUTO)
    assert (code, err) == (0, "<module> handle\n")


INTERRUPTED_IMPORT = """
import signal, sys, traceback
class Late(Exception):
    pass
def handle(*ignored):
    raise Late
def interrupt(event, arguments):
    if event == "open" and "gputop/tracking/printed/" in str(arguments[0]):
        signal.raise_signal(signal.SIGALRM)
signal.signal(signal.SIGALRM, handle)
sys.addaudithook(interrupt)
try:
    for step in range(9):
        print("step", step, "loss: 0.5")
except Late as error:
    print(*(frame.name for frame in traceback.extract_tb(error.__traceback__)), file=sys.stderr)
"""


@KEEPS_TRACEBACK
def test_nor_does_it_show_what_gputop_imports_meanwhile(home: Home) -> None:
    code, _, err = home.run(INTERRUPTED_IMPORT, command=(*RUN, sys.executable), **AUTO)
    assert (code, err) == (0, "<module> interrupt handle\n")


def test_a_closed_pipe_ends_it_as_without_gputop(tmp_path: Path) -> None:
    code = "for n in range(10**6): print('step', n, 'loss: 0.5')"
    command = f"{shlex.join((*RUN, sys.executable, '-c', code))} | head -n 1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=clean_environment(tmp_path, **AUTO), timeout=180, check=False
    )
    assert done.stdout == "step 0 loss: 0.5\n"
    assert "BrokenPipeError" in done.stderr
