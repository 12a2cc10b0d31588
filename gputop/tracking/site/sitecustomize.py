"""What ``gputop run`` puts first on PYTHONPATH: notices when a script imports torch, then steps aside.

Python imports a module of this name when it starts. This one takes its directory off ``sys.path``, arms the import of
torch, and hands over to the user's own sitecustomize, if there is one, exactly as if it had been found alone: its
errors are shown by Python as always, and where there is none nothing of this name stays loaded. A process that never
imports torch pays for reading this file. PYTHONPATH in ``os.environ`` keeps the entry, so that ranks and other children
are tracked too. Flat and plain on purpose: any Python 3 may read it, and nothing here may fail.
"""

import sys
from importlib.machinery import PathFinder

try:
    import os
    from importlib.util import module_from_spec, spec_from_file_location

    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry or os.curdir) != _here]
    if os.environ.get("GPUTOP") != "0" and sys.version_info >= (3, 10):
        _path = os.path.join(os.path.dirname(_here), "auto", "site_start.py")
        _spec = spec_from_file_location("_gputop_site_start", _path)
        if _spec is not None and _spec.loader is not None:
            _module = module_from_spec(_spec)
            _spec.loader.exec_module(_module)
            _module.start()
except Exception:  # noqa: BLE001 - whatever is wrong here, the user's program starts as it would without gputop
    pass

_theirs = PathFinder.find_spec("sitecustomize")
if _theirs is None or _theirs.loader is None:
    # What Python's own site module expects of a missing sitecustomize: it goes on without a word.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
_module = module_from_spec(_theirs)
sys.modules["sitecustomize"] = _module
_theirs.loader.exec_module(_module)
