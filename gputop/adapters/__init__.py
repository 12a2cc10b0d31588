"""Callbacks for training frameworks, each in the form that its framework expects.

* ``gputop.adapters.huggingface.GputopCallback``: ``Trainer(callbacks=[GputopCallback()])``
* ``gputop.adapters.lightning.GputopLogger`` and ``GputopCallback``: ``Trainer(logger=…, callbacks=[…])``
* ``gputop.adapters.accelerate.GputopTracker``: ``Accelerator(log_with=GputopTracker())``
* ``gputop.adapters.keras.GputopCallback``: ``model.fit(callbacks=[GputopCallback()])``

Only an adapter's own module imports its framework, and that module loads on first use.
"""

__all__ = ["accelerate", "huggingface", "keras", "lightning"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gputop.adapters' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"gputop.adapters.{name}")
