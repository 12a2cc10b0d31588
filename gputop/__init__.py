"""gputop: watch and understand GPU training from a terminal.

In a training script: ``run = gputop.init(name=…)``, ``run.log(loss=loss)``, ``run.finish()``.
"""
