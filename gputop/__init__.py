"""gputop: watch and understand GPU training from a terminal.

In a training script: ``run = gputop.init(name=…)``, ``run.log(loss=loss)``, ``run.finish()``; or the import alone, and
the training is tracked as it is (``gputop.tracking.auto.install``). Names are loaded when they are first used, so that
``import gputop`` costs a training script nothing; a test guards what it may load.
"""

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
# "adapters", "config", "run" and "summary" are found by __getattr__ too.

_NOT_KEPT = (
    "AlertLevel,Artifact,Audio,Graph,Histogram,Html,Image,Molecule,Object3D,Plotly,Settings,Table,Video,"
    "log_artifact,log_code,log_model,login,mark_preempting,plot,save,setup,termerror,termlog,termwarn,unwatch,use_artifact,"
    "use_model,util"
)
"""What scripts written for wandb name, and gputop does not keep: it says so, and the script runs on."""
_HOMES = {
    **dict.fromkeys(
        ("alert", "define_metric", "fact", "finish", "init", "log", "phase", "text", "watch"),
        "gputop.tracking.session",
    ),
    "Run": "gputop.tracking.run",
    "GputopHandler": "gputop.tracking.handler",
    "adapters": "gputop.adapters",
    **dict.fromkeys(_NOT_KEPT.split(","), "gputop.tracking.wandb"),
}
_OF_THE_ACTIVE_RUN = ("config", "run", "summary")
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _OF_THE_ACTIVE_RUN:
        return import_module("gputop.tracking.session").active(name)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gputop' has no attribute {name!r}")
    value: object = import_module(home) if home == f"gputop.{name}" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OF_THE_ACTIVE_RUN, "adapters"})


def _install(torch: object) -> None:
    from gputop.tracking.auto.install import install

    install(torch)


arm(_install)
