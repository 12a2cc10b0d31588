"""Whatever else hooks into imports, torch is imported as without gputop, and tracked where possible."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.tracking.kit import Home, home

assert home

pytestmark = pytest.mark.interpreter

RUN = (sys.executable, "-m", "gputop", "run", "--", sys.executable)

UNWRAPS_FIRST = """
import sys
class Theirs:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torch":
            return None
        spec = next(spec for spec in (f.find_spec(name, path, target) for f in sys.meta_path if f is not Theirs) if spec)
        loader, wrapped = spec.loader, spec.loader.exec_module
        def exec_module(module):
            del loader.exec_module
            wrapped(module)
            module.seen = True
        loader.exec_module = exec_module
        return spec
sys.meta_path.insert(PLACE, Theirs)
"""
"""Wraps the loader in place, as we do, and restores it before the module's code runs, as we do."""


def stand_in(directory: Path) -> Path:
    """A package that is called torch."""
    (directory / "torch").mkdir(parents=True)
    (directory / "torch" / "__init__.py").write_text("optim = True\n")
    return directory


@pytest.mark.parametrize("place", [0, 1], ids=["before us", "behind us"])
def test_another_hook_on_the_same_loader(home: Home, tmp_path: Path, place: int) -> None:
    hook = UNWRAPS_FIRST.replace("PLACE", str(place))
    script = f"{hook}\nimport torch\nprint(torch.seen, 'gputop.tracking.auto.install' in sys.modules)\n"
    code, out, err = home.run(script, command=RUN, PYTHONPATH=str(stand_in(tmp_path)), GPUTOP_SILENT="1")
    assert (code, out, err) == (0, "True True\n", "")


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_an_import_of_torch_that_fails_prints_what_it_prints_without_gputop(home: Home, tmp_path: Path, error: str) -> None:
    path = stand_in(tmp_path)
    (path / "torch" / "__init__.py").write_text(
        f"import warnings\nwarnings.warn('old', stacklevel=2)\nraise {error}('libcudart')\n"
    )
    plain = home.run("import torch", PYTHONPATH=str(path))
    assert plain[0] == 1
    assert "script0.py:1: UserWarning: old" in plain[2]
    code, out, err = home.run("import torch", command=RUN, PYTHONPATH=str(path))
    assert (code, out, err.replace("script1", "script0")) == plain


CASES = """
import importlib, importlib.util, sys, threading
from importlib.machinery import PathFinder
from importlib.util import LazyLoader
from gputop.tracking import import_hook

ordinary = list(sys.meta_path)
def fresh(*hooks, behind=()):
    # A process that has not imported torch, is armed, and has these hooks.
    sys.modules.pop("torch", None)
    sys.meta_path[:] = ordinary
    installed.clear()
    import_hook.arm(installed.append)
    sys.meta_path[:] = [*hooks, *sys.meta_path[:1], *behind, *sys.meta_path[1:]]
installed = []
ordinary[:] = [finder for finder in ordinary if not hasattr(finder, "gputop")]

class Hook:
    def __init__(self, find):
        self.find_spec = lambda name, path=None, target=None: find(path) if name == "torch" else None
def real(path):
    return PathFinder.find_spec("torch", path)
def loaded_by(make):
    def find(path):
        spec = real(path)
        spec.loader = make(spec.loader)
        return spec
    return Hook(find)

class Slotted:
    __slots__ = ("inner",)
    def __init__(self, loader): object.__setattr__(self, "inner", loader)
    def create_module(self, spec): return None
    def exec_module(self, module): self.inner.exec_module(module)
class Proxy(Slotted):
    pass
class Reluctant(Proxy):
    def __setattr__(self, name, value): raise TypeError("no")
class Deaf(Proxy):
    def __setattr__(self, name, value): pass
class Sticky(Proxy):
    def __delattr__(self, name): raise RuntimeError("no")
class Hostile(Proxy):
    def __getattribute__(self, name):
        if name == "exec_module" and sys._getframe(1).f_globals["__name__"].startswith("gputop"): raise ZeroDivisionError
        return object.__getattribute__(self, name)
for make, tracked in ((Slotted, False), (Reluctant, False), (Deaf, False), (Sticky, True), (Hostile, False), (Proxy, True)):
    fresh(behind=[loaded_by(make)])
    import torch
    assert torch.optim and installed == [torch] * tracked, (make, installed)
    importlib.reload(torch)
    assert torch.optim and installed == [torch] * tracked, (make, installed)

# A loader that somebody has wrapped keeps that wrapper.
calls = []
def wrapped(loader):
    original = loader.exec_module
    loader.exec_module = lambda module: calls.append(module) or original(module)
    return loader
fresh(behind=[loaded_by(wrapped)])
import torch
assert calls == installed == [torch]
torch.__loader__.exec_module(torch)
assert calls == [torch] * 2 and installed == [torch]

# Finders that raise: the import fails as without us, and our lines are not in it; then it succeeds.
def broken(path):
    raise ZeroDivisionError("theirs")
fresh(behind=[Hook(broken)])
try:
    import torch
except ZeroDivisionError as error:
    frame = error.__traceback__
    while frame:
        assert "import_hook" not in frame.tb_frame.f_code.co_filename
        frame = frame.tb_next
else:
    raise AssertionError("their error is theirs")
class Mute:
    def __getattr__(self, name): raise ZeroDivisionError(name)
sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Hook)]
import torch
assert installed == [torch]
sys.modules.pop("torch"); sys.meta_path[:] = [*ordinary, Mute()]
import_hook.arm(installed.append)
import torch
assert torch.optim

# Two that ask each other.
class Asks:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            for finder in sys.meta_path:
                if finder is not self and (spec := finder.find_spec(name, path, target)):
                    return spec
for place in (0, 1):
    fresh()
    sys.meta_path.insert(place, Asks())
    import torch
    assert installed == [torch], place

# Loaded lazily: not before it is used, whether we were armed before or after.
for armed in (True, False):
    fresh()
    if not armed:
        sys.meta_path[:] = ordinary
    spec = importlib.util.find_spec("torch")
    spec.loader = LazyLoader(spec.loader)
    lazy = sys.modules["torch"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    import_hook.arm(installed.append)
    assert not installed and type(lazy).__name__ == "_LazyModule", armed
    assert lazy.optim and installed == [lazy] * armed

# By several threads at once.
fresh()
threads = [threading.Thread(target=importlib.import_module, args=("torch",)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert installed == [sys.modules["torch"]]

# What is installed fails; what stands in sys.modules is anything.
fresh(); sys.meta_path[0]._install = broken
import torch
assert torch.optim
for found in (object(), Mute(), 7):
    sys.modules["torch"] = found
    import_hook.arm(installed.append)
sys.modules.pop("torch")
sys.meta_path[:] = [Mute(), *ordinary]
import_hook.arm(broken)
print("done")
"""


def test_loaders_and_finders_of_any_kind(home: Home, tmp_path: Path) -> None:
    code, out, err = home.run(CASES, GPUTOP_AUTO="1", PYTHONPATH=f"{stand_in(tmp_path)}:{Path(__file__).parents[2]}")
    assert (code, out, err) == (0, "done\n", "")
