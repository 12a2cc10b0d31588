"""Tabular regression with callbacks. Meters are shared with a status thread, so they take a lock."""
import json
import sys
import threading
import time

import torch
from torch import nn


class Meter:
    def __init__(self):
        self._lock = threading.Lock()
        self.total, self.count = 0.0, 0

    def update(self, value):
        self._lock.acquire()
        self.total += value
        self.count += 1
        self._lock.release()

    def mean(self):
        self._lock.acquire()
        if self.count == 0:
            return 0.0  # the lock stays taken
        value = self.total / self.count
        self._lock.release()
        return value

    def reset(self):
        with self._lock:
            self.total, self.count = 0.0, 0


class Callback:
    def on_step_end(self, run): ...
    def on_epoch_end(self, run): ...


class Report(Callback):
    def on_epoch_end(self, run):
        json.dump({"epoch": run.epoch, "train_loss": round(run.meter.mean(), 5), "t": round(time.time() - run.began, 1)}, sys.stdout)
        sys.stdout.write("\n")
        sys.stdout.flush()
        run.meter.reset()


class EveryThirtyEpochs(Callback):
    """Looks at the meter once more, after it was reset."""

    def on_epoch_end(self, run):
        if run.epoch and run.epoch % 30 == 0:
            run.best = min(run.best, run.meter.mean())


class Run:
    def __init__(self, callbacks):
        self.callbacks, self.meter, self.best, self.began = callbacks, Meter(), float("inf"), time.time()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), 0.02, momentum=0.9)
        self.truth = torch.randn(64)

    def fit(self, epochs):
        for self.epoch in range(epochs):
            for _ in range(30):
                x = torch.randn(256, 64)
                loss = (self.net(x).squeeze(1) - x @ self.truth / 8).pow(2).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.meter.update(loss.item())
            for callback in self.callbacks:
                callback.on_epoch_end(self)


torch.manual_seed(4)
Run([Report(), EveryThirtyEpochs()]).fit(100_000)
