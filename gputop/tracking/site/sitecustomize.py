"""The sitecustomize that ``gputop run`` puts first on PYTHONPATH: arms automatic tracking, then steps aside.

Python imports a module of this name at startup. This one removes its directory from ``sys.path``, arms the import of torch, and
hands over to the user's own sitecustomize, if there is one, as if Python had found only that one: Python reports its errors as
usual, and if there is none, no module of this name stays loaded. A process that never imports torch pays only for reading this
file. PYTHONPATH in ``os.environ`` keeps the entry, so that ranks and other child processes are tracked too. Deliberately flat
and simple: any Python 3 may read it, and nothing here may fail.
"""

import sys
from importlib.machinery import PathFinder

try:
    import os
    from importlib.util import module_from_spec, spec_from_file_location

    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or os.curdir) != _here]

    def _run(name: str, path: str, function: str) -> None:
        """Call a function of the module in a file of gputop, which need not be installed here."""
        spec = spec_from_file_location(name, path)
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            getattr(module, function)()

    if os.environ.get("GPUTOP") != "0" and sys.version_info >= (3, 10):
        _run("_gputop_site_start", os.path.join(os.path.dirname(_here), "auto", "site_start.py"), "start")
        if "GPUTOP_END_LINE" in os.environ:
            _run("_gputop_end_line", os.path.join(_here, "end_line.py"), "arm")
except Exception:  # noqa: BLE001 - whatever goes wrong here, the user's program starts as it would without gputop
    pass

_theirs = PathFinder.find_spec("sitecustomize")
if _theirs is None or _theirs.loader is None:
    # Python's site module expects this error for a missing sitecustomize, and continues silently.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
_module = module_from_spec(_theirs)
sys.modules["sitecustomize"] = _module
_theirs.loader.exec_module(_module)
