"""The startup code of a Python under ``gputop run``: arms the import of torch, and listens to printed lines.

``tracking/site/sitecustomize.py`` loads this file by path into Python interpreters where gputop may not be installed; the two
modules that it needs are loaded the same way. Imports nothing of gputop until torch is loaded or printed lines show a loss.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_TRACKING = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGE = os.path.dirname(_TRACKING)


def start() -> None:
    """Arm this process and listen to its output."""
    hook, output = _standalone("import_hook"), _standalone("own_output")
    if hook is not None:
        hook.arm(_install)
    if output is not None:
        output.listen(_load)


def _standalone(name: str) -> ModuleType | None:
    """Return a self-contained module of the training side, loaded by path."""
    return _load_file(f"_gputop_{name}", os.path.join(_TRACKING, f"{name}.py"))


def _load_file(name: str, path: str, package: str | None = None) -> ModuleType | None:
    spec = spec_from_file_location(name, path, submodule_search_locations=None if package is None else [package])
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    if package is not None:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _install(torch: Any) -> None:
    if _load():
        from gputop.tracking.auto.install import install

        install(torch)


def _load() -> bool:
    """Make ``import gputop.…`` work where gputop is not installed; return False if another package has that name."""
    if "gputop" in sys.modules:
        return True
    found = PathFinder.find_spec("gputop")
    if found is not None and found.origin:
        return os.path.exists(os.path.join(os.path.dirname(found.origin), "tracking", "auto", "install.py"))
    return _load_file("gputop", os.path.join(_PACKAGE, "__init__.py"), _PACKAGE) is not None
