"""The process that has imported torch: each request that it receives becomes a fork of it. ``tests/nursery`` starts it.

A fork looks as if Python had started ``python SCRIPT``: arguments, environment, working directory, standard streams, its own
session, ``sys.path``, and the sitecustomize that PYTHONPATH names. It returns from ``serve``, and the script runs as
``__main__`` with no frame of ours below it except the one that calls ``exec``: thus the interpreter itself handles the end of
the script, with its exit code, its exit handlers and its threads.

To the script, torch does not look imported. It imports torch as usual, through every import hook, and gets the loaded module.

A fork ends as Python does, but leaves what was loaded before it to the kernel: to free all of torch, in Python and in C++, took
three quarters of the CPU of a short training. What happens then needs a real start.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import select
import socket
import sys
import weakref
from types import CodeType, ModuleType
from typing import Any

_loaded: dict[str, Any] = {}


@atexit.register  # before torch is imported: handlers run in reverse order, and those of torch still import from it
def forget() -> None:
    """Hide the modules that were loaded before the fork from Python, which clears all that it finds."""
    for name in _loaded:
        sys.modules.pop(name, None)


import numpy.random  # noqa: E402, F401
import torch  # noqa: E402
import torch._dynamo  # noqa: E402 - the first optimizer loads it

_POLL_S = 0.01
_SPEC = torch.__spec__
_REQUEST_BYTES = 1 << 20


class Loaded:
    """Finds and loads torch as if it had not been imported."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a spec for torch only."""
        if name != self._module.__name__:
            return None
        loader: Any = Loaded(self._module)  # each spec has its own loader, because hooks change it
        return importlib.util.spec_from_loader(name, loader, origin=self._module.__file__, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        """Return what was loaded before the fork."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it was loaded."""
        module.__spec__ = _SPEC
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Loaded)]


def serve(listener: socket.socket) -> CodeType:
    """Fork for each request and report how it ended, until the last client leaves; in a fork, return the script's code."""
    keep()
    gc.collect()
    gc.freeze()  # otherwise each fork copies all of torch when it collects garbage, and again at its end: 0.8 s of CPU
    clients: set[socket.socket] = set()
    alive: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([listener, *clients], [], [], _POLL_S if alive else None)
        for client in ready:
            if client is listener:
                client, _ = listener.accept()
                clients.add(client)
                client.send(b"+")
                continue
            message, received, _, _ = socket.recv_fds(client, _REQUEST_BYTES, 4)
            if not message:
                client.close()
                clients.discard(client)
                if not clients:
                    os._exit(0)
                continue
            *streams, status = received
            pid = os.fork()
            if not pid:
                for each in (listener, *clients):
                    each.close()
                for descriptor in (status, *alive.values()):
                    os.close(descriptor)
                return born(json.loads(message), streams)
            for descriptor in streams:
                os.close(descriptor)
            alive[pid] = status
            with contextlib.suppress(OSError):
                client.send(str(pid).encode())
        for pid in list(alive):
            ended, code = os.waitpid(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):  # no more requests
                    os.write(alive[pid], str(os.waitstatus_to_exitcode(code)).encode())
                os.close(alive.pop(pid))


def keep() -> None:
    """Let nothing that is loaded now be freed, except modules of Python's own."""
    own = {*sys.stdlib_module_names, "__main__"}
    _loaded.update((name, module) for name, module in sys.modules.items() if name.partition(".")[0] not in own)
    _loaded[""] = _loaded  # frozen, this cycle is never found
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False


def born(asked: dict[str, Any], streams: list[int]) -> CodeType:
    """Turn into a Python that has just started; return the code of its script."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    if "GPUTOP_END_LINE" in os.environ:
        os.environ["GPUTOP_END_LINE"] = str(os.getpid())  # `gputop run` becomes its command, so it knows the number
    if "OMP_NUM_THREADS" in os.environ:  # read when the library is loaded
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    script, *words = asked["arguments"]
    sys.argv, sys.orig_argv = [script, *words], [sys.executable, script, *words]
    entries = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*entries, *(entry for entry in sys.path if entry not in entries)]  # Python's site adds none twice
    for name in ("torch", "sitecustomize", __name__):
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Loaded(torch))  # type: ignore[arg-type]
    try:  # as Python's site does
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    path = os.path.abspath(script)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    libc = ctypes.CDLL(None)
    for last in (libc._exit, libc.fcloseall):  # the second runs first; both before the destructors of libraries
        libc.on_exit(last, None)
    main = vars(sys.modules["__main__"])
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    main["__file__"] = path
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)
