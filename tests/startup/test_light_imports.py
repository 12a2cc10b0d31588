"""Modules that others import and hardly use are loaded by their first use."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_details_of_a_process_need_no_dates_and_no_locale() -> None:
    code = """
import os, sys
from gputop.startup.light_imports import import_ctypes, import_library
import_library()
import_ctypes()
from gputop.sources.host.details import details_of
found = details_of(os.getpid())
assert found is not None and found.threads == 1, found
assert not {"base64", "datetime", "glob", "locale"} & {*sys.modules}
import datetime
assert datetime.date(2026, 1, 2).year == 2026
import psutil
assert psutil.net_connections() is not None and psutil.sensors_temperatures() is not None
"""
    subprocess.run([sys.executable, "-S", "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
