"""Trainings drawn at random, each in a forked process: most of their iterations are plain, some are not.

mixed.py SEEDS: trains each seed twice, once with every iteration measured in full ("SEED-full") and once with the fast path
("SEED-fast"). Words before the seeds: "gpu" makes tracking take each loss for one on a GPU (``late``); "pair" and "adversarial"
train with two optimizers, "ddp" accumulates under a DistributedDataParallel. Prints what each training's own record of its
losses and weights is.

Tracking's clock shows what this process has worked, so that a crowded machine makes no step slow: slow ones are never fast.
"""

import contextlib
import gc
import hashlib
import io
import json
import os
import random
import sys
import threading
import time

import late
import torch
from torch.utils.checkpoint import checkpoint

import gputop
from gputop.tracking.auto import install
from gputop.tracking.auto.training import pace

torch.set_num_threads(1)
ITERATIONS, PLAIN_FIRST = 1200, 50
WORDS = [word for word in sys.argv[1:] if not word.isdigit()]
GPU = "gpu" in WORDS


class Clock:
    """A clock that stands still while other processes have the CPU. It continues that of the machine.

    The CPU time of a process may stand still between two calls, as after a move to another core. No clock of a machine does,
    and a wait of no time is not logged.
    """

    def __init__(self):
        self.slept_s = time.perf_counter() - time.process_time()
        self.last_s = 0.0

    def __call__(self):
        self.last_s = max(self.slept_s + time.process_time(), self.last_s + 1e-9)
        return self.last_s

    def after_fork(self, until):
        """Continue at the same time: a new process has not worked yet."""
        self.slept_s = until - time.process_time()


CLOCK = Clock()
time.perf_counter = CLOCK
for module in [module for name, module in sys.modules.items() if name.startswith("gputop.")]:
    if hasattr(module, "perf_counter"):
        module.perf_counter = CLOCK


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise MemoryError


class Training:
    special = 0.1
    """The share of iterations that are not plain."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.seed, self.random = seed, random.Random(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.other = torch.optim.SGD(self.model[0].parameters(), lr=0.001)
        data = torch.utils.data.TensorDataset(torch.randn(97 * 4, 4), torch.randn(97 * 4, 1))
        self.loader = torch.utils.data.DataLoader(data, batch_size=4)
        self.batches = iter(self.loader)
        self.said = []
        self.more = iter(torch.utils.data.DataLoader(range(10 * ITERATIONS)))

    def batch(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)

    def loss(self):
        inputs, targets = self.batch()
        return torch.nn.functional.mse_loss(self.model(inputs), targets)

    def back(self, loss, *gradient):
        loss.backward(*gradient)
        self.said.append(loss.tolist())

    def plain(self):
        self.back(self.loss())

    def evaluation(self):
        self.plain()
        self.model.eval()
        with torch.no_grad():
            self.model(torch.ones(2, 4))
        self.model.train()

    def evaluation_first(self):
        self.model.eval()
        with torch.no_grad():
            self.model(torch.ones(2, 4))
        self.model.train()
        self.plain()

    def save(self):
        self.plain()
        torch.save(self.model.state_dict(), io.BytesIO())

    def accumulation(self):
        for _ in range(2):
            self.back(self.loss() / 2)

    def second_loss(self):
        self.plain()
        penalty = sum(item.square().sum() for item in self.model.parameters())
        penalty.backward()

    def no_loss(self):
        self.batch()

    def caught(self):
        loss = self.loss()
        self.back(loss)
        with contextlib.suppress(RuntimeError):
            self.back(loss)

    def tried_again(self):
        inputs, targets = self.batch()
        with contextlib.suppress(MemoryError):
            self.back(Failing.apply(torch.nn.functional.mse_loss(self.model(inputs), targets)))
        self.optimizer.zero_grad()
        self.back(torch.nn.functional.mse_loss(self.model(inputs[:2]), targets[:2]))

    def reentrant(self):
        inputs, targets = self.batch()
        hidden = checkpoint(self.model[0], inputs.requires_grad_(), use_reentrant=True)
        self.back(torch.nn.functional.mse_loss(self.model[2](hidden), targets))

    def second_optimizer(self):
        self.plain()
        self.other.step()

    def not_a_number(self):
        self.back(self.loss() * float("nan"))
        self.optimizer.zero_grad()

    def collected(self):
        self.plain()
        gc.collect()

    def vector(self):
        inputs, targets = self.batch()
        errors = (self.model(inputs) - targets).squeeze(1)
        self.back(errors, torch.ones(4))

    def in_a_list(self):
        torch.autograd.backward([self.loss()])

    def slow(self):
        CLOCK.slept_s += 0.12
        self.plain()

    def new_rate(self):
        self.optimizer.param_groups[0]["lr"] *= 0.5
        self.plain()

    def again(self):
        self.batches = iter(self.loader)
        self.plain()

    def other_loader(self):
        self.plain()
        next(self.more)

    def evaluation_of_a_batch(self):
        self.plain()
        with torch.no_grad():
            self.model(self.batch()[0])

    def other_thread(self):
        def train():
            layer = torch.nn.Linear(2, 1)
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
            for _ in range(3):
                layer(torch.ones(1, 2)).sum().backward()
                optimizer.step()

        thread = threading.Thread(target=train)
        loss = self.loss()
        thread.start()
        thread.join()
        self.back(loss)

    def scaled(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        self.back(scaler.scale(self.loss()))

    def noted(self):
        self.plain()
        gputop.text("a word")

    def step(self):
        self.optimizer.step()

    def kinds(self):
        return [name for name, item in vars(Training).items() if callable(item) and name not in NOT_KINDS]

    def run(self):
        kinds = self.kinds()
        late = [*kinds, *LATE] if self.seed % 2 else kinds
        for number in range(ITERATIONS):
            special = number >= PLAIN_FIRST and self.random.random() < self.special
            self.optimizer.zero_grad()
            getattr(self, self.random.choice(late if number > ITERATIONS * 0.8 else kinds) if special else "plain")()
            self.step()
        for inputs, targets in self.batches:
            self.optimizer.zero_grad()
            self.back(torch.nn.functional.mse_loss(self.model(inputs), targets))
            self.step()


LATE = ("accumulation", "in_a_list", "second_loss", "second_optimizer")
"""After these there is more than one line with a loss, or optimizer. With odd seeds alone."""
NOT_KINDS = ("__init__", "batch", "loss", "back", "step", "kinds", "run", "plain", *LATE)


class Pair(Training):
    """Two optimizers that step one after the other, now and then only the first one, or in the other order."""

    special = 0.03

    def __init__(self, seed):
        super().__init__(seed)
        self.second = torch.optim.SGD(self.model[2].parameters(), lr=0.02)
        self.optimizer = torch.optim.SGD(self.model[0].parameters(), lr=0.01)

    def step(self):
        draw = self.random.random()
        first, second = (self.second, self.optimizer) if draw > 0.99 else (self.optimizer, self.second)
        first.step()
        if draw < 0.005:
            self.model.eval()
            self.model(torch.ones(2, 4))
            self.model.train()
        elif draw < 0.01:
            self.batch()
        elif draw < 0.015:
            torch.save(self.model.state_dict(), io.BytesIO())
        if not 0.5 < draw < 0.51:
            second.step()


class Adversarial(Pair):
    """Two optimizers that step on losses of their own."""

    def step(self):
        self.optimizer.step()
        self.second.zero_grad()
        draw = self.random.random()
        if draw < 0.01:
            self.model.eval()
            self.model(torch.ones(2, 4))
            self.model.train()
        if draw < 0.99:
            penalty = self.model(torch.ones(2, 4)).square().mean()
            penalty.backward()
            self.said.append(penalty.tolist())
        self.second.step()


class Parallel(Training):
    """A DistributedDataParallel that accumulates two backwards, and reduces the second one."""

    special = 0.15

    def __init__(self, seed):
        super().__init__(seed)
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.model = torch.nn.parallel.DistributedDataParallel(self.model)

    def accumulate(self, *reduced):
        for reduces in reduced:
            with contextlib.nullcontext() if reduces else self.model.no_sync():
                self.back(self.loss() / len(reduced))

    def plain(self):
        self.accumulate(False, True)

    def kinds(self):
        own = ("none_reduced", "all_reduced", "first_reduced", "fewer", "one_more", "past_the_wrapper", "past_it_first")
        return [*own, *(name for name in super().kinds() if name not in ("reentrant", "tried_again", "second_optimizer"))]

    def none_reduced(self):
        self.accumulate(False, False)

    def all_reduced(self):
        self.accumulate(True, True)

    def first_reduced(self):
        self.accumulate(True, False)

    def fewer(self):
        self.accumulate(True)

    def one_more(self):
        self.accumulate(False, False, True)

    def past_the_wrapper(self):
        for _ in range(2):
            inputs, targets = self.batch()
            self.back(torch.nn.functional.mse_loss(self.model.module(inputs), targets) / 2)

    def past_it_first(self):
        inputs, targets = self.batch()
        self.back(torch.nn.functional.mse_loss(self.model.module(inputs), targets) / 2)
        self.back(self.loss() / 2)


TRAINING = {"pair": Pair, "adversarial": Adversarial, "ddp": Parallel}.get(WORDS[-1] if WORDS else "", Training)


def train(seed, full):
    os.environ["GPUTOP_NAME"] = f"{seed}-{'full' if full else 'fast'}"
    if full:
        pace.FULL_ONE_IN = 1
    pace.PLAIN_STEPS = 1
    looked_at = []
    steps = install.tracked()
    close = type(steps)._close_iteration
    type(steps)._close_iteration = lambda self: (looked_at.append(0), close(self))[1]
    if GPU:
        late.pretend(seed)
    training = TRAINING(seed)
    training.run()
    if GPU:
        late.let_all_arrive()
    gputop.finish()
    weights = [item.tolist() for item in training.model.state_dict().values()]
    print(seed, hashlib.sha256(json.dumps([training.said, weights]).encode()).hexdigest(), flush=True)
    if steps.training.off or (not full and len(looked_at) > ITERATIONS * 0.7):
        print(f"seed {seed}: {len(looked_at)} iterations took the full path", file=sys.stderr)
        os._exit(1)


def main():
    for seed in map(int, sys.argv[1 + len(WORDS) :]):
        for full in (True, False):
            now = CLOCK()
            child = os.fork()
            if not child:
                CLOCK.after_fork(now)
                train(seed, full)
                sys.stderr.flush()
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit(1)


main()
