"""Imports modules without those that they import and hardly ever use: 2 MiB of the sampler, 6 MiB of the screen.

A screen talks only to processes and a terminal, so asyncio needs no OpenSSL. Textual takes from ``typing_extensions`` names
that ``typing`` has, too, and ``textual.types`` collects names from widgets that gputop does not have. The other modules are
replaced by one that loads them on first use. Imports nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType, TracebackType
    from typing import Any

_OF_PROCESSES: dict[str, tuple[str, ...]] = {"bz2": (), "locale": (), "lzma": ()}
"""``shutil`` unpacks archives, ``subprocess`` asks for an encoding in text mode."""
_OF_THE_LIBRARY = {"inspect": (), "urllib.parse": ("quote_from_bytes",)}
"""Module -> those of its functions that are imported by name. ``dataclasses`` needs ``inspect`` only for classes without a
docstring, ``pathlib`` needs to quote only in ``as_uri``."""
_OF_CTYPES: dict[str, tuple[str, ...]] = {"shutil": (), "subprocess": (), "tempfile": ()}
"""``ctypes.util``, which nvidia-ml-py imports, starts other programs to find a library; the driver library has one name."""
_OF_ASYNCIO = {"asyncio.sslproto": (), "ast": ("NodeVisitor",)}
"""``inspect``, which asyncio imports, needs ``ast`` for the source of classes and the signatures of C functions."""
_OF_PSUTIL: dict[str, tuple[str, ...]] = {"base64": (), "datetime": (), "glob": (), "locale": ()}
"""It needs them for dates as text, the network and sensors, and ``subprocess`` for an encoding."""
_OF_TEXTUAL = {
    "ast": ("literal_eval",),
    "difflib": ("get_close_matches",),
    "mimetypes": (),
    "pickle": ("dumps", "loads"),
    "platformdirs": ("user_downloads_path",),
    "rich.panel": ("Panel",),
    "rich.table": ("Table",),
    "textual.widgets._directory_tree": ("DirEntry",),
    "textual.widgets._placeholder": ("PlaceholderVariant",),
    "textual.widgets._select": ("NoSelection", "SelectType"),
    "typing_extensions": (),
    "urllib.parse": ("urlparse",),
    "uuid": ("uuid4",),
}


def import_processes() -> None:
    """Import shutil and subprocess with stand-ins, before another module imports them."""
    with _StandIns(_OF_PROCESSES):
        import shutil  # noqa: F401
        import subprocess  # noqa: F401


def leave_out_archives() -> None:
    """Have modules that are imported from now on find no bz2 and no lzma, as on a Python without them: the sampler unpacks
    nothing, and seldom imports ``shutil``.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("bz2", None)
    modules.setdefault("lzma", None)


def import_ctypes() -> None:
    """Import ctypes with stand-ins, before nvidia-ml-py imports it: they take a twentieth of the time of ``gputop --once``."""
    with _StandIns(_OF_CTYPES):
        import ctypes.util  # noqa: F401


def import_library() -> None:
    """Import dataclasses and pathlib with stand-ins, before another module imports them; make dataclasses share methods."""
    with _StandIns(_OF_THE_LIBRARY):
        import dataclasses  # noqa: F401
        import pathlib  # noqa: F401
    from gputop.startup.light_dataclasses import share_methods

    share_methods()


def import_argparse() -> None:
    """Import argparse without gettext, which compiles patterns and looks up each text's translation: Python brings none."""
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    untranslated: Any = type(sys)("gettext")
    untranslated.gettext = lambda text: text
    untranslated.ngettext = lambda one, several, count: one if count == 1 else several
    sys.modules["gettext"] = untranslated
    try:
        import argparse  # noqa: F401 - later imports find it loaded
    finally:
        del sys.modules["gettext"]


def import_asyncio() -> None:
    """Import asyncio as on a Python that was built without OpenSSL. A later import of ``ssl`` gets the real module."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules  # None says that there is no such module
    modules["ssl"] = None
    try:
        with _StandIns(_OF_ASYNCIO):
            import asyncio  # noqa: F401 - later imports find it loaded
    finally:
        del modules["ssl"]


def for_textual() -> _StandIns:
    """Return a block to import Textual in."""
    from gputop.startup.key_names import KeyNames

    return _StandIns(_OF_TEXTUAL, KeyNames("unicodedata"))


def for_psutil() -> _StandIns:
    """Return a block to import psutil in."""
    return _StandIns(_OF_PSUTIL)


class _StandIns:
    """A block in which modules that are not loaded yet have stand-ins. Later imports get the module itself."""

    def __init__(self, functions: dict[str, tuple[str, ...]], *made: ModuleType) -> None:
        stand_ins: list[ModuleType] = [*(_StandIn(name, by_name) for name, by_name in functions.items()), *made]
        self._put = {module.__name__: module for module in stand_ins if module.__name__ not in sys.modules}

    def __enter__(self) -> None:
        sys.modules.update(self._put)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name, module in self._put.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _StandIn(type(sys)):  # type: ignore[misc] # the class of modules, without an import
    def __init__(self, name: str, by_name: tuple[str, ...]) -> None:
        super().__init__(name)
        self._by_name = by_name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._by_name:
            return _Later(self, name)
        if self.__name__ == "typing_extensions":
            import typing

            if hasattr(typing, name):
                return getattr(typing, name)
        return getattr(self.real(), name)

    def real(self) -> ModuleType:
        """Return the module itself, which is imported now."""
        from importlib import import_module

        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)


class _Later:
    """A function or class of a module that is not loaded yet: calls load it; as the base of a class it is left out."""

    def __init__(self, module: _StandIn, name: str) -> None:
        self._module, self._name = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._module.real(), self._name)(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()
