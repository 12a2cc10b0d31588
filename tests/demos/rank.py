"""Runs a demo as one rank for tests: ``rank.py SCRIPT ARGUMENTS``, in a fork of the nursery.

Signal 10 (SIGUSR1) makes it print its stack. It exits without the teardown of the interpreter, in which torch's gloo
sometimes aborts.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import runpy
import signal
import sys
import traceback

code = 1
try:
    faulthandler.register(signal.SIGUSR1)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
    code = 0
except SystemExit as asked:
    if isinstance(asked.code, str):
        print(asked.code, file=sys.stderr)
    code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
except BaseException:  # noqa: BLE001 - it is told as Python would tell it
    traceback.print_exc()
finally:
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
