"""Notices that a script imports torch, and turns automatic tracking on then; never imports torch itself.

Stands alone (it imports nothing of gputop at its top): ``gputop run`` loads this file by its path into Pythons where
gputop may not be installed, and ``import gputop`` must stay cheap. The price for an import of anything else is one
comparison of names.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and collections.abc would be most of the price of ``import gputop``
    from collections.abc import Callable
    from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The directory that holds the package ``gputop`` which this file belongs to."""


class TorchFinder:
    """A finder for ``torch`` alone: lets the others find it, and calls ``install(torch)`` when it is loaded."""

    gputop = True

    def __init__(self, install: Callable[[Any], None]) -> None:
        self._install = install

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return what the other finders find, with a loader that tells when it is done."""
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                self._listen(spec.loader)
                return spec
        return None

    def _listen(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module: Any) -> None:
            # The loader is the user's to look at (inspect, pkgutil): it is itself again before torch runs.
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            try:
                self._install(module)
            except Exception:  # noqa: BLE001 - torch is loaded; that it cannot be watched must not break its import
                return

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader without room for it: this process is not tracked
            return


def arm(install: Callable[[Any], None]) -> None:
    """Call ``install(torch)`` once torch is loaded, now if it is; not at all where the environment says so."""
    env = os.environ
    if env.get("GPUTOP") == "0" or env.get("GPUTOP_MODE") == "disabled" or env.get("GPUTOP_AUTO") == "0":
        return
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "optim"):
        install(torch)
    elif not any(getattr(finder, "gputop", False) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder(install))


def arm_from_package() -> None:
    """Arm a process that imports gputop."""
    arm(_install_from_package)


def _install_from_package(torch: Any) -> None:
    from gputop.tracking.auto.install import install

    install(torch)


def arm_from_site() -> None:
    """Arm a process that ``gputop run`` started."""
    arm(_install_from_site)
    _listen()


def _install_from_site(torch: Any) -> None:
    if _load():
        _install_from_package(torch)


def _listen() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "printed_here.py")
    spec = spec_from_file_location("_gputop_printed_here", path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.listen(_load)


def _load() -> bool:
    return "gputop" in sys.modules or _load_own_package()


def _load_own_package() -> bool:
    """Make ``import gputop.…`` work in a Python where gputop is not installed; False where another package has the name."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec, spec_from_file_location

    found = PathFinder.find_spec("gputop")
    if found is not None and found.origin:
        return os.path.exists(os.path.join(os.path.dirname(found.origin), "tracking", "auto", "install.py"))
    package = os.path.join(ROOT, "gputop")
    spec = spec_from_file_location("gputop", os.path.join(package, "__init__.py"), submodule_search_locations=[package])
    if spec is None or spec.loader is None:
        return False
    module = module_from_spec(spec)
    sys.modules["gputop"] = module
    spec.loader.exec_module(module)
    return True
