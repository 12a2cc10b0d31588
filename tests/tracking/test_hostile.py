"""No public call of gputop raises into a training, whatever its arguments and whenever it is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gputop
from gputop.tracking.journal.harmless import harmless
from tests.tracking.kit import Home, home, read_all

assert home

MODULE = (sys.executable, "-m", "tests.tracking.hostile")


def test_nothing_public_raises_whatever_it_is_given(home: Home) -> None:
    home.any_facts = True
    code, out, err = home.run("", command=MODULE)
    assert (code, out) == (0, "\n"), err
    assert "Traceback" not in err
    assert any((0, 1.0) in read_all(path).series.get("loss", ()) for path in home.archives()), "and the next run is recorded"


AT_THE_END = """
import atexit, builtins, sys, gputop

class AtTheEnd:
    def __init__(self, run=None):
        self.gputop, self.run = gputop, run
    def __del__(self):
        gputop, run = self.gputop, self.run
        gputop.log(loss=1.0); gputop.log({"loss": 1.0}, step=3); gputop.text("x"); gputop.fact("a", 1); gputop.alert("t")
        with gputop.phase("data"):
            gputop.define_metric("loss")
        gputop.watch(object()); gputop.Table(columns=[]); gputop.config; gputop.summary["best"] = 1; gputop.GputopHandler()
        with gputop.init(name="late") as late:
            late.log(loss=2.0)
        gputop.log(loss=2.0); gputop.finish()
        if run is not None:
            run.log(loss=1.0); run.log(bad=[1]); run.config["a"] = run; run.name = "n"; run.tags = ["x"]; run.finish()
        print("deleted")
if "used" in sys.argv:
    run = gputop.init(name="early")
    run.log(loss=0.5)
    if "unfinished" in sys.argv:
        atexit._clear()
    builtins.kept = AtTheEnd(run)
else:
    builtins.kept = AtTheEnd()
here = AtTheEnd()
"""


@pytest.mark.parametrize("arguments", [["used"], ["unused"], ["used", "unfinished"]], ids=" ".join)
def test_what_is_logged_while_the_interpreter_shuts_down_raises_nothing(home: Home, arguments: list[str]) -> None:
    code, out, err = home.run(AT_THE_END, *arguments)
    assert (code, out) == (0, "deleted\n" * 2), err
    assert "Exception ignored" not in err
    assert "Traceback" not in err


NO_DESCRIPTORS = """
import logging, os, resource, gputop

def use(value):
    with gputop.init(name="x", config={"lr": 0.1}) as run:
        run.log(loss=value)
        run.config["a"] = 1
        run.tags = ["x"]
    gputop.log(loss=value); gputop.text("x"); gputop.fact("a", 1); gputop.alert("t"); gputop.watch(object())
    gputop.define_metric("loss"); gputop.summary["best"] = 1; gputop.config.update({"b": 2})
    with gputop.phase("data"):
        pass
    assert list(gputop.config) == list(gputop.config.keys()) and not gputop.run
    handler = gputop.GputopHandler()
    logging.getLogger().addHandler(handler)
    logging.warning("logged")
    logging.getLogger().removeHandler(handler)
    gputop.finish()

logging.raiseExceptions = False
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    use(1.0)
for descriptor in taken:
    os.close(descriptor)
use(2.0)
print("ok")
"""


def test_the_first_call_may_be_made_without_free_descriptors(home: Home) -> None:
    """Nothing can be imported then: what gputop loads at its first use is missing."""
    code, out, err = home.run(NO_DESCRIPTORS)
    assert (code, out) == (0, "ok\n"), err
    assert err.count("gputop:") <= 1
    assert [read_all(path).series["loss"] for path in home.archives()] == [[(0, 2.0)]]


USED_AS_CLASSES = """
import argparse, logging, os, resource, gputop as wandb

def use():
    wandb.init("p", "n", argparse.Namespace(lr=0.1))
    wandb.config.epochs = 3
    wandb.config.update({"batch": 8}, allow_val_change=True)
    assert (wandb.config.lr, wandb.config["epochs"], wandb.run.config.batch) == (0.1, 3, 8)
    wandb.summary["best"] = 0.5
    assert wandb.run.summary["best"] == 0.5

    class Handler(wandb.GputopHandler):
        def emit(self, record):
            super().emit(record)
    logging.getLogger().addHandler(Handler())
    logging.getLogger().addHandler(wandb.GputopHandler(level="INFO"))
    logging.warning("logged")
    logging.getLogger().handlers.clear()

    class Run(wandb.Run):
        pass
    assert not isinstance(3, wandb.Run) and not isinstance(None, (wandb.Run, wandb.Table)) and not issubclass(int, wandb.Run)
    hint = wandb.Run | None
    for error in (wandb.Error, wandb.errors.Error, wandb.errors.CommError, (ValueError, wandb.UsageError)):
        try:
            raise RuntimeError("of the script")
        except error:
            raise AssertionError
        except RuntimeError:
            pass
    try:
        raise wandb.Error("of the script")
    except wandb.Error as error:
        assert str(error) == "of the script"

logging.raiseExceptions = False
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
except OSError:
    use()
print("ok")
"""


def test_no_public_name_fails_a_script_while_nothing_can_be_imported(home: Home) -> None:
    code, out, err = home.run(USED_AS_CLASSES)
    assert (code, out) == (0, "ok\n"), err
    assert "Traceback" not in err


RAISES_AT_FIRST = """
import os, signal, sys, gputop

class Late(Exception):
    pass

def handle(*ignored):
    raise Late

signal.signal(signal.SIGUSR1, handle)

class Finder:
    def find_spec(self, name, *ignored):
        if name == "gputop.tracking.session":
            os.kill(os.getpid(), signal.SIGUSR1)

sys.meta_path.insert(0, Finder())
try:
    gputop.init()
except Late:
    print("late")
"""


def test_what_a_signal_handler_raises_during_the_first_call_reaches_the_script(home: Home) -> None:
    assert home.run(RAISES_AT_FIRST)[:2] == (0, "late\n")


USES = """
import gputop
run = gputop.init(name="x", config={"lr": 0.1})
run.log(loss=0.5)

def use():
    gputop.log(loss=2.0); run.log({"loss": 2.0}); run.text("x"); run.config["a"] = 1; run.tags = ["x"]; run.name = "n"
    gputop.alert("t"); gputop.define_metric("x"); gputop.summary["b"] = 2; gputop.fact("a", 1); gputop.watch(object())
    with gputop.phase("data"):
        pass

"""
SHORT_OF_FRAMES = """
import inspect, sys

def descend(depth):
    if depth:
        return descend(depth - 1)
    try:
        use()
    except RecursionError as error:
        escaped.append(any("gputop" in frame.filename for frame in inspect.getinnerframes(error.__traceback__)[3:]))

escaped, room = [], sys.getrecursionlimit() - len(inspect.stack())
for left in range(12, 120):  # with fewer, no function can be called
    descend(room - left)
assert not any(escaped), escaped
"""
BROKEN_CLOCKS = """
import time

def fail(*ignored):
    raise RuntimeError("frozen")

names = ("time", "monotonic", "time_ns", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "strftime", "localtime")
kept = {name: getattr(time, name) for name in names}
for clock in (fail, lambda *ignored: "noon", lambda *ignored: None, lambda *ignored: -1.0, lambda *ignored: float("nan")):
    vars(time).update(dict.fromkeys(names, clock))
    use()
    with gputop.init(name="another") as other:
        other.log(loss=1.0)
    vars(time).update(kept)
"""
IN_A_SANDBOX = """
import sys

def forbid(event, arguments):
    if event.startswith(("open", "import", "os.", "mmap", "ctypes", "fcntl", "socket", "subprocess", "sys._getframe")):
        raise RuntimeError(event)

sys.addaudithook(forbid)
use()
run.finish()
with gputop.init(name="another") as other:
    other.log(loss=1.0)
"""
WITHOUT_THREADS = """
import _thread, threading

def fail(*ignored, **also):
    raise RuntimeError("can't start new thread")

for name in ("start_new_thread", "start_joinable_thread"):
    for module, prefix in ((_thread, ""), (threading, "_")):
        if hasattr(module, prefix + name):
            setattr(module, prefix + name, fail)
use()
with gputop.init(name="another") as other:
    for step in range(2000):
        other.log(loss=1.0)
"""
WITHOUT_MEMORY = """
import re, resource
size = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20),) * 2)
use()
with gputop.init(name="another") as other:
    other.log(loss=1.0)
"""
IN_A_JAIL = """
import os, sys
os.chroot(sys.argv[1])
os.setuid(65534)
use()
with gputop.init(name="another") as other:
    other.log(loss=1.0)
"""
TROUBLES = {
    "short of frames": SHORT_OF_FRAMES,
    "broken clocks": BROKEN_CLOCKS,
    "sandbox": IN_A_SANDBOX,
    "no threads": WITHOUT_THREADS,
    "no memory": WITHOUT_MEMORY,
    "jail": IN_A_JAIL,
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_call_fails_a_script_in_trouble(home: Home, tmp_path: Path, trouble: str) -> None:
    if trouble == "jail" and os.geteuid() != 0:
        pytest.skip("only root can change the root directory")
    code, out, err = home.run(f"{USES}{TROUBLES[trouble]}\nrun.finish()\nprint('ok')", str(tmp_path))
    assert (code, out) == (0, "ok\n"), err
    assert "Traceback" not in err


WORDY = """
import gputop
run = gputop.init(name="wordy")

class Odd:
    def __init__(self, number): self.number = number
    def __float__(self): raise ValueError(f"no number: {self.number}")
    def __str__(self): raise ValueError(f"no text: {self.number}")

class Row(list):
    @property
    def size(self): return len(self)

for epoch in range(1, 50):
    run.log(phase=f"epoch {epoch}", odd=Odd(epoch), row=Row(range(epoch + 1)), loss=1.0)
    gputop.log({"loss": 1.0}, step=f"{epoch}.5")
    run.text(Odd(epoch))
    run.alert(Odd(epoch))
"""


def test_a_message_that_quotes_what_is_wrong_comes_once(home: Home) -> None:
    code, _, err = home.run(WORDY)
    told = [line for line in err.splitlines() if line.startswith("gputop: ")]
    assert code == 0
    assert len(told) == len({" ".join(line.split()[:3]) for line in told}), err


def test_an_interrupt_passes_and_so_does_a_wrong_call(home: Home) -> None:
    class Interrupts:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    class Exits:
        def keys(self) -> Iterator[str]:
            raise SystemExit(3)

    run = gputop.init()
    with pytest.raises(KeyboardInterrupt):
        run.text(Interrupts())  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        run.log(Exits())  # type: ignore[arg-type]
    for wrong in (run.fact, run.phase, run.text, gputop.alert, gputop.watch, run.config.setdefault):
        with pytest.raises(TypeError, match="missing"):
            wrong()  # type: ignore[operator]
    with pytest.raises(TypeError, match="unexpected"):
        run.text("x", colour="red")  # type: ignore[call-arg]
    with pytest.raises(KeyError):
        run.config["missing"]
    with pytest.raises(KeyError):
        del run.config["missing"]
    with pytest.raises(AttributeError):
        _ = run.config.missing
    run.log(loss=1.0)
    run.finish()
    assert read_all(home.archives()[0]).series["loss"] == [(0, 1.0)]


def test_what_can_be_read_of_a_call_is_recorded(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    class Unreadable:
        def __float__(self) -> float:
            raise RuntimeError("no")

        __str__ = __hash__ = __float__  # type: ignore[assignment]

    run = gputop.init()
    run.log({"loss": 1.0, "bad": Unreadable(), "text": "hello"})
    run.text("a number for a level", 30)
    run.config.update({"lr": 0.1, "bad": Unreadable(), "nested": {"a": [Unreadable(), 2]}, "big": 10**5000})
    run.config.update(None)
    run.tags = range(10**9)
    deep: object = 1.0
    for _ in range(60):
        deep = {"a": deep, "b": deep}
    home.any_facts = True
    run.fact("deep", deep)
    run.finish()
    said = read_all(home.archives()[0])
    assert said.series == {"loss": [(0, 1.0)]}
    assert [(event["level"], event["message"]) for kind, _, event in said.events if kind == 3] == [
        ("info", "text: hello"),
        ("warning", "a number for a level"),
    ]
    found = home.only_run()
    assert found.config == {
        "lr": 0.1,
        "bad": "<Unreadable>",
        "nested": {"a": ["<Unreadable>", 2]},
        "big": "<int of 16610 bits>",
    }
    assert len(found.ranks[0].facts["tags"]) == 1000
    assert "deep" in found.ranks[0].facts
    assert capsys.readouterr().err.count("gputop:") == 1


def test_a_guard_keeps_what_it_guards() -> None:
    @harmless(otherwise=list)
    def listed(a: int, *, b: int = 2) -> list[int]:
        """Return both."""
        return [a, b, 1 // a]

    assert listed(1) == [1, 2, 1]
    assert listed(0) == []
    assert (listed.__name__, listed.__doc__) == ("listed", "Return both.")
