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

_install: Callable[[Any], None] | None = None
_on_ask: Callable[[], None] | None = None


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
    global _install
    _install = install
    env = os.environ
    if env.get("GPUTOP") == "0" or env.get("GPUTOP_MODE") == "disabled" or env.get("GPUTOP_AUTO") == "0":
        return
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "optim"):
        install(torch)
    elif not any(getattr(finder, "gputop", False) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchFinder(install))


def ask() -> None:
    """Add automatic values to the run that the script opened: ``gputop.watch(model, optimizer)`` asks for it."""
    if _install is not None:
        arm(_install)
    if _on_ask is not None:
        _on_ask()


def answer_with(answer: Callable[[], None]) -> None:
    """Call ``answer`` whenever somebody asks: automatic tracking does, once it is installed."""
    global _on_ask
    _on_ask = answer
