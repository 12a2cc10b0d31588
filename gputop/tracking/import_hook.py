"""Turns automatic tracking on when a script imports torch; never imports torch itself.

Self-contained: it must not import anything of gputop at module level. ``gputop run`` loads this file by path into Python
interpreters where gputop may not be installed, and ``import gputop`` must stay cheap. Every other import costs one
comparison of names.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and collections.abc would be most of the cost of ``import gputop``
    from collections.abc import Callable
    from typing import Any

_install: Callable[[Any], None] | None = None
_on_ask: Callable[[], None] | None = None


class TorchFinder:
    """A finder for ``torch`` only: lets the other finders find it, and calls ``install(torch)`` once it is loaded."""

    gputop = True

    def __init__(self, install: Callable[[Any], None]) -> None:
        self._install = install

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that the other finders return, with a loader that reports when it is done."""
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
            # User code may inspect the loader (inspect, pkgutil), so it is restored before torch's code runs.
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            try:
                self._install(module)
            except Exception:  # noqa: BLE001 - torch is loaded; a failure to track it must not break its import
                return

        try:
            loader.exec_module = exec_module
        except AttributeError:  # the loader takes no new attributes: this process is not tracked
            return


def arm(install: Callable[[Any], None]) -> None:
    """Call ``install(torch)`` once torch is loaded, or now if it is; never if the environment turns tracking off."""
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
    """Add automatic values to the run that the script opened, as ``gputop.watch(model, optimizer)`` requests."""
    if _install is not None:
        arm(_install)
    if _on_ask is not None:
        _on_ask()


def answer_with(answer: Callable[[], None]) -> None:
    """Call ``answer`` on every ``ask``; automatic tracking registers itself here once it is installed."""
    global _on_ask
    _on_ask = answer
