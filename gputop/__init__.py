"""gputop: watch and understand GPU training from a terminal.

In a training script: ``run = gputop.init(name=…)``, ``run.log(loss=loss)``, ``run.finish()``; or the import alone, and
the training is tracked as it is (``gputop.tracking.autolog``). Names are loaded when they are first used, so that
``import gputop`` costs a training script nothing; a test guards what it may load.
"""

from gputop.tracking.autolog_import import arm_from_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputop.tracking.run import Run, fact, finish, init, log
    from gputop.tracking.watch import watch

__all__ = ["Run", "fact", "finish", "init", "log", "watch"]

_HOMES = {
    "Run": "gputop.tracking.run",
    "init": "gputop.tracking.run",
    "log": "gputop.tracking.run",
    "finish": "gputop.tracking.run",
    "fact": "gputop.tracking.run",
    "watch": "gputop.tracking.watch",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gputop' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


arm_from_package()
