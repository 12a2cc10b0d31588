"""gputop: watch and understand GPU training from a terminal.

In a training script, call ``run = gputop.init(name=…)``, ``run.log(loss=loss)`` and ``run.finish()``; or only import gputop,
and the training is tracked automatically (``gputop.tracking.auto.install``). Names load on first use, so ``import gputop``
costs a training script nothing; a test guards what it may load.
"""

from __future__ import annotations

import sys

from gputop.tracking.import_hook import arm
from gputop.tracking.journal.nothing import instead_of as _instead_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from gputop.tracking.handler import GputopHandler
    from gputop.tracking.run import Run
    from gputop.tracking.session import alert, define_metric, fact, finish, init, log, phase, text, watch

__all__ = [
    "GputopHandler",
    "Run",
    "alert",
    "define_metric",
    "fact",
    "finish",
    "init",
    "log",
    "phase",
    "text",
    "watch",
]
# __getattr__ also resolves "adapters", "config", "run" and "summary".

_NOT_KEPT = (
    "AlertLevel,Artifact,ArtifactTTL,Audio,Bokeh,Classes,EvalTable,Graph,Histogram,Html,Image,JoinedTable,Molecule,Object3D,"
    "Plotly,Settings,Table,Video,apis,box3d,catboost,data_types,fastai,gym,integration,keras,lightgbm,link_model,log_artifact,"
    "log_code,log_model,login,mark_preempting,plot,plot_table,require,restore,save,sb3,sdk,setup,sklearn,tensorboard,"
    "tensorflow,termerror,termlog,termwarn,unwatch,use_artifact,use_model,util,xgboost"
)
"""Names that wandb scripts use and gputop does not record: gputop says so, and the script continues."""
_HOMES = {
    **dict.fromkeys(
        ("alert", "define_metric", "fact", "finish", "init", "join", "log", "phase", "teardown", "text", "watch"),
        "gputop.tracking.session",
    ),
    **dict.fromkeys(("CommError", "Error", "UsageError", "__version__", "errors"), "gputop.errors"),
    "Run": "gputop.tracking.run",
    "GputopHandler": "gputop.tracking.handler",
    "adapters": "gputop.adapters",
    **dict.fromkeys(_NOT_KEPT.split(","), "gputop.tracking.wandb"),
}
_RUN_ATTRIBUTES = ("config", "run", "summary")
_WITH_DATA = ("Api", "agent", "controller", "sweep")
"""Names of wandb's whose result a script needs: with a placeholder in their place, it would go on and be wrong."""


def __getattr__(name: str) -> object:
    home = "gputop.tracking.session" if name in _RUN_ATTRIBUTES else _HOMES.get(name)
    if home is None:
        told = f"; docs/migrating.md says what stands for wandb.{name}" if name in _WITH_DATA else ""
        raise AttributeError(f"module 'gputop' has no attribute {name!r}{told}")
    if sys.is_finalizing():
        return _instead_of(name)
    try:
        module = _load(home)
    except Exception as error:  # noqa: BLE001 - no descriptor or no memory is left; the next use tries again
        _say_missing(error)
        return _instead_of(name)
    if name in _RUN_ATTRIBUTES:
        return module.active(name)
    value: object = module if home == f"gputop.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def _load(home: str) -> ModuleType:
    """Import a part of gputop. Python may write bytecode then, and libffi a page for ctypes: beyond the limit on the size of
    files (``ulimit -f``), they would end a script that lets SIGXFSZ end it."""
    from importlib import import_module

    if home in sys.modules:
        return import_module(home)  # waits if another thread is importing it
    import signal

    exceeded = {signal.SIGXFSZ}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, exceeded)
    try:
        return import_module(home)
    finally:
        if not exceeded <= blocked:
            try:
                signal.sigtimedwait(exceeded, 0)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, exceeded)


def _say_missing(error: Exception) -> None:
    try:
        from gputop.startup.bytecode import advice
        from gputop.tracking.journal.handlers import let_through
        from gputop.tracking.journal.notice import reason, warn
    except Exception:  # noqa: BLE001 - the same is missing
        return
    let_through(error)
    what = advice(error)
    rest = "." if what is None else f". {what}"
    warn(f"a part of gputop cannot be loaded, the training continues without it ({reason(error)}){rest}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_RUN_ATTRIBUTES, "adapters"})


def _install(torch: object) -> None:
    from gputop.tracking.auto.install import install

    install(torch)


arm(_install)
