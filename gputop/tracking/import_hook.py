"""Turns automatic tracking on when a script imports torch; never imports torch itself, and never makes an import fail.

Self-contained: it must not import anything of gputop at module level. ``gputop run`` loads this file by path into Python
interpreters where gputop may not be installed, and ``import gputop`` must stay cheap. Every other import costs one
comparison of names.

Other tools hook into imports, too, and may have replaced, wrapped or locked anything that this module touches. So every line
here is guarded, silently, because an import is no place for a message; only the loader's own ``exec_module`` runs unguarded. If
something fails, this process is not tracked.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and collections.abc would be most of the cost of ``import gputop``
    from collections.abc import Callable
    from typing import Any

_install: Callable[[Any], None] | None = None
_IMPORTLIB = "<frozen importlib._bootstrap_external>"


class TorchFinder:
    """A finder for ``torch`` only: lets the other finders find it, and calls ``install(torch)`` once it is loaded."""

    gputop = True

    def __init__(self, install: Callable[[Any], None]) -> None:
        self._install = install
        self._done = False
        self._finding: set[int] = set()
        """The threads on which this finder is asking the other ones."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that the other finders return, with a loader that reports when it is done."""
        thread = get_ident()
        if name != "torch" or thread in self._finding:  # another finder asks all others, as this one does
            return None
        self._finding.add(thread)
        try:
            return self._find_spec(name, path, target)
        except Exception:  # noqa: BLE001 - importlib asks the other finders next, and reports their errors as ever
            return None
        finally:
            self._finding.discard(thread)

    def _find_spec(self, name: str, path: Any, target: Any) -> Any:
        finders = list(sys.meta_path)
        # Earlier finders have already been asked, or are asking this one.
        ours = next((index for index, finder in enumerate(finders) if finder is self), -1)
        for finder in finders[ours + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                self._listen(spec.loader)
                return spec
        return None

    def _listen(self, loader: Any) -> None:
        try:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                # User code may inspect the loader (inspect, pkgutil), so it is restored before torch's code runs.
                _restore(loader, exec_module, execute)
                execute(module)
                self._loaded(module)

            # If torch cannot be loaded, Python omits importlib's calls from the traceback, and this one with them.
            exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORTLIB)
            loader.exec_module = exec_module
        except Exception:  # noqa: BLE001 - the loader has no such attribute, or keeps it: this process is not tracked
            return

    def _loaded(self, module: Any) -> None:
        if self._done:  # this is a reload
            return
        self._done = True
        try:
            self._install(module)
            sys.meta_path.remove(self)
        except Exception:  # noqa: BLE001 - torch is loaded; a failure to track it must not break its import
            return


def _restore(loader: Any, ours: Any, original: Any) -> None:
    """Undo the change to a loader, unless other code has wrapped or restored it since."""
    try:
        if loader.exec_module is ours:
            del loader.exec_module
            if loader.exec_module != original:  # another wrapper had replaced it
                loader.exec_module = original
    except Exception:  # noqa: BLE001 - a loader that keeps our function works as well
        return


def arm(install: Callable[[Any], None]) -> None:
    """Call ``install(torch)`` once torch is loaded, or now if it is; never if the environment turns tracking off."""
    global _install
    _install = install
    try:
        env = os.environ
        if env.get("GPUTOP") == "0" or env.get("GPUTOP_MODE") == "disabled" or env.get("GPUTOP_AUTO") == "0":
            return
        torch = sys.modules.get("torch")
        if torch is not None and _is_loaded(torch):
            install(torch)
        elif not any(getattr(type(finder), "gputop", None) is True for finder in sys.meta_path):
            sys.meta_path.insert(0, TorchFinder(install))
    except Exception:  # noqa: BLE001 - ``import gputop`` runs this; the script continues, untracked
        return


def _is_loaded(module: Any) -> bool:
    # Not getattr: that would load a lazy module.
    return "optim" in object.__getattribute__(module, "__dict__")


def arm_again() -> None:
    """Turn automatic tracking on where ``import gputop`` could not, because torch was only half loaded then."""
    if _install is not None:
        arm(_install)
