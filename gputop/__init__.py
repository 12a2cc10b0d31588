"""gputop: watch and understand GPU training from a terminal.

In a training script, call ``run = gputop.init(name=…)``, ``run.log(loss=loss)`` and ``run.finish()``; or only import gputop,
and the training is tracked automatically (``gputop.tracking.auto.install``). Names load on first use, so ``import gputop``
costs a training script nothing; a test guards what it may load.
"""

import sys

from gputop.tracking.import_hook import arm

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    "AlertLevel,Artifact,Audio,Classes,Graph,Histogram,Html,Image,Molecule,Object3D,Plotly,Settings,Table,Video,apis,"
    "data_types,integration,log_artifact,log_code,log_model,login,mark_preempting,plot,require,save,sdk,setup,termerror,termlog,"
    "termwarn,unwatch,use_artifact,use_model,util"
)
"""Names that wandb scripts use and gputop does not record: gputop says so, and the script continues."""
_HOMES = {
    **dict.fromkeys(
        ("alert", "define_metric", "fact", "finish", "init", "join", "log", "phase", "teardown", "text", "watch"),
        "gputop.tracking.session",
    ),
    **dict.fromkeys(("CommError", "Error", "UsageError", "errors"), "gputop.errors"),
    "Run": "gputop.tracking.run",
    "GputopHandler": "gputop.tracking.handler",
    "adapters": "gputop.adapters",
    **dict.fromkeys(_NOT_KEPT.split(","), "gputop.tracking.wandb"),
}
_RUN_ATTRIBUTES = ("config", "run", "summary")
__version__ = "0.1.0"


class _Nothing:
    """Replaces every name while the interpreter shuts down, when nothing can be imported any more; does nothing."""

    def __call__(self, *ignored: object, **also: object) -> "_Nothing":
        return self

    def __getattr__(self, name: str) -> "_Nothing":
        return self

    __enter__ = __getitem__ = __setitem__ = __call__

    def __exit__(self, *ignored: object) -> None:
        return None

    def __bool__(self) -> bool:
        return False


def __getattr__(name: str) -> object:
    home = "gputop.tracking.session" if name in _RUN_ATTRIBUTES else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gputop' has no attribute {name!r}")
    if sys.is_finalizing():
        return _Nothing()
    from importlib import import_module

    if name in _RUN_ATTRIBUTES:
        return import_module(home).active(name)
    value: object = import_module(home) if home == f"gputop.{name}" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_RUN_ATTRIBUTES, "adapters"})


def _install(torch: object) -> None:
    from gputop.tracking.auto.install import install

    install(torch)


arm(_install)
