"""The gputop that travels to a host without one: an archive that the Python there reads over standard input.

Nothing is written there: the modules are imported from memory, and the process ends with its connection. What it needs is
Python 3.8 or newer (``older_python`` helps 3.8 and 3.9) and, for GPUs, the driver. It only reads and reports; it starts and
stops nothing there.
"""

from __future__ import annotations

import importlib.util
import io
from functools import cache
from pathlib import Path

WANTED = b"gputop-wanted"
"""The words of the other side if it has a Python and no gputop: it now waits for ``message``."""
NOT_NEEDED = (
    *("_demos", "adapters", "cli/across", "cli/launching", "cli/live", "cli/stored", "doctor/preflight"),
    *(
        "cli/doctor",
        "doctor/diagnosis.py",
        "doctor/evidence/data_waits.py",
        "doctor/evidence/device_history.py",
        "doctor/evidence/doings.py",
        "doctor/evidence/rounds.py",
        "doctor/evidence/stillness.py",
        "doctor/evidence/straggling.py",
        "doctor/evidence/windows.py",
        "doctor/logs/numbers",
        "doctor/logs/numbers/gpus",
        "doctor/logs/numbers/ranks",
        "doctor/rulebook.py",
        "doctor/rules",
        "export",
        "filters",
        "history",
        "hosts",
        "jobs/output/printed_log.py",
        "joined",
        "over_hosts",
        "selftest",
        "tracking/auto",
        "tracking/site",
        "tui",
    ),
)
"""Packages and modules that neither ``gputop agent`` nor ``gputop --once --json`` loads."""
SIZE_DIGITS = 10
"""How many decimal digits before the archive give its size in bytes."""
LEAST_PYTHON, OWN_PYTHON = (3, 8), (3, 10)
"""From ``LEAST_PYTHON`` on it can run, and from ``OWN_PYTHON`` on without help."""
LOADER = """\
import __future__, importlib.util, io, os, sys, zipfile
def take(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, min(1 << 16, count - len(data)))
        if not piece: sys.exit(1)
        data += piece
    return data
class Archive:
    translated = None
    def __init__(self, data):
        self.archive = zipfile.ZipFile(io.BytesIO(data))
        self.names = set(self.archive.namelist())
    def find_spec(self, name, path=None, target=None):
        for end in ("/__init__.py", ".py"):
            file = name.replace(".", "/") + end
            if file in self.names:
                found = importlib.util.spec_from_loader(name, self, origin="/over-stdin/" + file, is_package=end[0] == "/")
                found.has_location = True
                return found
    def create_module(self, spec): return None
    def exec_module(self, module):
        code = self.get_source(module.__name__)
        if self.translated and module.__name__ != "pynvml": code = self.translated(code)
        code = compile(code, module.__file__, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
        exec(code, module.__dict__)
    def get_source(self, name):
        return self.archive.read(self.find_spec(name).origin[12:]).decode()
sys.path[:] = filter(None, sys.path)
archive = Archive(take(int(take(10))))
sys.meta_path.insert(0, archive)
if sys.version_info < (3, 10):
    import gputop_older_python as older
    older.supply()
    archive.translated = older.translated
sys.argv[0] = "gputop"
os.write(1, b"gputop-connected\\n")
from gputop.__main__ import main
sys.exit(main())
"""
"""What the Python there runs. It reads no byte beyond the archive, because commands follow. It leaves annotations unevaluated,
because Python 3.8 and 3.9 cannot evaluate all of them."""


@cache
def message() -> bytes:
    """Return the archive behind its size: this gputop, a parser of TOML, and pynvml where it is installed here. All are pure
    Python.
    """
    import zipfile  # the launch screen imports this module

    package = Path(__file__).resolve().parents[1]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(package.rglob("*.py")):
            place = path.relative_to(package).as_posix()
            if not f"{place}/".startswith(tuple(f"{name}/" for name in NOT_NEEDED)):
                archive.write(path, f"{package.name}/{place}")
        archive.write(Path(__file__).with_name("older_python.py"), "gputop_older_python.py")
        for name in ("tomllib", "tomli"):  # one parser: gputop imports it as tomli before Python 3.11
            parser = importlib.util.find_spec(name)
            if parser is not None and parser.origin is not None:
                for path in sorted(Path(parser.origin).parent.glob("*.py")):
                    archive.write(path, f"tomli/{path.name}")
                break
        nvml = importlib.util.find_spec("pynvml")
        if nvml is not None and nvml.origin is not None and nvml.origin.endswith(".py"):
            archive.write(nvml.origin, "pynvml.py")
    data = target.getvalue()
    return f"{len(data):0{SIZE_DIGITS}d}".encode() + data
