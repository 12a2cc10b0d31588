"""Runs demos as ranks without paying for ``import torch`` each time: it is loaded here once, and every rank is a fork.

A program of its own, started by ``tests/demos/runs.py``: reads a run as a line of JSON from standard input, forks its
ranks with the environment that torchrun gives, writes their output to files and answers with their exit codes.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import runpy
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

import numpy.random  # noqa: F401
import torch
import torch._dynamo  # DDP loads it
import torch.distributed.fsdp
import torch.distributed.nn.functional
import torch.profiler
import torch.utils.data


def rank(run: dict[str, Any], number: int) -> NoReturn:
    """Become one rank."""
    code = 1
    try:
        os.setsid()
        with open(f"{run['out']}/{number}.txt", "wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        faulthandler.register(signal.SIGUSR1)
        os.environ.update(run["env"])
        if run["ranks"]:
            os.environ.update(RANK=str(number), LOCAL_RANK=str(number))
            os.environ.update(WORLD_SIZE=str(run["ranks"]), LOCAL_WORLD_SIZE=str(run["ranks"]))
        sys.argv = [run["script"], *run["argv"]]
        sys.path.insert(0, os.path.dirname(run["script"]))
        torch.set_num_threads(1)
        runpy.run_path(run["script"], run_name="__main__")
        code = 0
    except SystemExit as asked:
        if isinstance(asked.code, str):
            print(asked.code, file=sys.stderr)
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, a rank ends with it and never goes on as the nursery
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Answer one line with another."""
    for line in sys.stdin:
        run = json.loads(line)
        pids = []
        for number in range(run["ranks"] or 1):
            pid = os.fork()
            if not pid:
                rank(run, number)
            pids.append(pid)
        codes: dict[int, int] = {}
        deadline, graced = time.monotonic() + run["seconds"], False
        while len(codes) < len(pids):
            if any(codes.values()):  # torchrun ends the others too; a moment later, so that they can say what they see
                deadline = min(deadline, time.monotonic() + run["grace"]) if not graced else deadline
                graced = True
            for pid in pids:
                if pid not in codes:
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    if ended:
                        codes[pid] = os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                for pid in set(pids) - set(codes):
                    os.kill(pid, signal.SIGUSR1)  # it writes down where it stands
                time.sleep(0.5)
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)
            time.sleep(0.01)
        for pid in pids:  # what a rank left behind: loader processes
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        print(json.dumps([codes[pid] for pid in pids]), flush=True)


if __name__ == "__main__":
    main()
