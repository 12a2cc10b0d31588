"""What a training holds, read from the variables of real processes: by classes named as torch's, and torch's own."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.sources.python_stacks.holdings import _EPOCH, Updated, Variable, holdings
from gputop.sources.python_stacks.layouts import layout
from gputop.sources.python_stacks.memory import READS_MAX, Memory, TornError
from gputop.sources.python_stacks.objects import Objects
from gputop.sources.python_stacks.reader import StackReader
from gputop.sources.python_stacks.survey import FAILED_MAX, LOOK_S, Survey
from gputop.whereabouts.activities import is_library
from gputop.whereabouts.records import (
    BACKWARD_MIN,
    FORWARD_MIN,
    Activity,
    Call,
    HeldList,
    HeldLoader,
    HeldModels,
    HeldOptimizers,
    Holdings,
)
from tests.pythons import SUPPORTED, python_of
from tests.real_processes import eventually

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(sys.maxsize < 2**32 or sys.version_info >= (3, 15), reason="no known layout of this Python"),
]
CLASSES = """\
import time


def of_torch(name, *bases):
    return type(name, bases or (object,), {"__module__": "torch.somewhere"})


def new(kind, **attributes):
    made = kind()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


Module, DataLoader, BatchSampler = of_torch("Module"), of_torch("DataLoader"), of_torch("BatchSampler")
DDP, Loss = of_torch("DistributedDataParallel", Module), of_torch("CrossEntropyLoss", of_torch("_Loss", Module))
Norm = of_torch("BatchNorm1d", of_torch("_BatchNorm", Module))
Synced, Dropout = of_torch("SyncBatchNorm", Norm.__bases__[0]), of_torch("Dropout", of_torch("_DropoutNd", Module))
Distributed, Random, Sequential = of_torch("DistributedSampler"), of_torch("RandomSampler"), of_torch("SequentialSampler")
Iterable, Tensor = of_torch("IterableDataset"), of_torch("Tensor")


class Net(Module):
    pass


class Photos:
    pass


class Endless(Iterable):
    pass


def module(kind, training=True, **inner):
    return new(kind, training=training, _parameters={}, _modules=inner)


def loader(sampler, dataset=Photos(), batch_sampler=None, kind=DataLoader, batch_size=32):
    made = new(kind, dataset=dataset, num_workers=2, batch_size=batch_size, sampler=sampler)
    made.batch_sampler = BatchSampler() if batch_sampler is None else batch_sampler
    return made


def wait():
    print("ready", flush=True)
    while True:
        time.sleep(0.01)


"""
PLAIN = HeldLoader("train_loader", "Photos", "RandomSampler", is_plain=True, batch_size=32, shuffles=True)
CASES = {
    "in a function": (
        "def main(net, train_loader, val_loader):\n    for epoch in range(3, 9):\n        wait()\n"
        "main(module(Net), loader(Random()), loader(Sequential()))",
        Holdings(HeldModels(("Net",)), PLAIN, 3),
    ),
    "in a module": (
        "net, train_loader, criterion, epoch = module(Net), loader(Random()), module(Loss), 2**40\nwait()",
        Holdings(HeldModels(("Net",)), PLAIN, 2**40),
    ),
    "in a closure": (
        "def main():\n    net, train_loader = module(Net), loader(Random())\n"
        "    def step():\n        wait()\n        return net, train_loader\n    step()\nmain()",
        Holdings(HeldModels(("Net",)), PLAIN),
    ),
    "in a trainer": (
        "class Trainer:\n    def __init__(self):\n        self.net, self.train_loader = module(Net), loader(Random())\n"
        "        self.val_loader = loader(Sequential())\n    def fit(self):\n        wait()\nTrainer().fit()",
        Holdings(HeldModels(("Net",)), PLAIN),
    ),
    "in a trainer with slots": (
        "class Trainer:\n    __slots__ = ('net',)\n    def fit(self, train_loader):\n        wait()\n"
        "Trainer().fit(loader(Random()))",
        Holdings(None, PLAIN),
    ),
    "in a wrapper, with a divided loader": (
        "net = module(Net, norm=module(Norm), inner=module(Net, norm=module(Norm), synced=module(Synced)))\n"
        "ddp = module(DDP, module=net)\nlast = module(DDP, module=net)\n"
        "dl = loader(new(Distributed, shuffle=True, num_replicas=4, rank=1, epoch=7))\nwait()",
        Holdings(
            HeldModels(("DistributedDataParallel",), "DistributedDataParallel", replicates=True, batch_norms=4),
            HeldLoader("dl", "Photos", "DistributedSampler", False, 32, shuffles=True, replicas=4, sampler_epoch=7),
        ),
    ),
    "with batches that are divided": (
        "net = module(type('DataParallel', (Module,), {'__module__': 'torch.nn'}), module=module(Net))\n"
        "net.device_ids = [0, 1, 2]\nwait()",
        Holdings(HeldModels(("DataParallel",), "DataParallel", devices=3)),
    ),
    "with an optimizer that exchanges gradients": (
        "net, opt = module(Net), new(type('SGD', (), {'__module__': 'horovod.torch.optimizer'}))\nwait()",
        Holdings(HeldModels(("Net",), "SGD")),
    ),
    "in evaluation mode": (
        "net = module(Net, False, drop=module(Dropout, False), norm=module(Norm, False))\nwait()",
        Holdings(HeldModels(("Net",), evaluates=True, differs=("BatchNorm", "dropout"))),
    ),
    "with one of two models in evaluation mode": (
        "first, second = module(Net, False, drop=module(Dropout, False)), module(Net)\nteacher = module(Net, False)\nwait()",
        Holdings(HeldModels(("Net",), differs=("dropout",))),
    ),
    "with averages of weights": (
        "semantic_net, ema_net, net_ema, netEMA = module(Net), *(module(type(name, (Module,), {}), False) for name in 'ABC')\n"
        "wait()",
        Holdings(HeldModels(("Net",))),
    ),
    "with two loaders": (
        "a, b = loader(Random()), loader(Random())\nnet = module(Net)\nwait()",
        Holdings(HeldModels(("Net",))),
    ),
    "with a loader of another kind": (
        "train_loader = loader(Random(), kind=type('Own', (DataLoader,), {'__module__': 'torch.x'}))\nwait()",
        Holdings(None, HeldLoader("train_loader", "Photos", "RandomSampler", is_plain=False, batch_size=32)),
    ),
    "with a stream": (
        "train_loader = loader(Sequential(), Endless(), batch_size=None)\nwait()",
        Holdings(None, HeldLoader("train_loader", "Endless", "SequentialSampler", is_plain=False)),
    ),
    "with batches of its own": (
        "train_loader = loader(Sequential(), batch_sampler=new(type('Buckets', (), {})))\nwait()",
        Holdings(None, HeldLoader("train_loader", "Photos", "SequentialSampler", is_plain=False, batch_size=32)),
    ),
    "with a dictionary that has lost keys": (
        "net = module(Net)\nfor number in range(300):\n    setattr(net, f'größe{number}', number)\n"
        "for number in range(290):\n    delattr(net, f'größe{number}')\nnet.training = False\nwait()",
        Holdings(HeldModels(("Net",), evaluates=True)),
    ),
    "with lists of tensors": (
        "def fit(net, history):\n    losses, few, none, names = [Tensor()] * 40, [Tensor()] * 2, [], ['loss'] * 99\n"
        "    floats = [0.5, Tensor(), 0.5]\n    wait()\n"
        "fit(module(Net), {'loss': [Tensor(), 0.1], 'seen': [Tensor()] * 60, 'step': 3, 7: [Tensor()] * 90})",
        Holdings(
            HeldModels(("Net",)),
            lists=(HeldList("few", 2), HeldList("history['seen']", 60), HeldList("losses", 40)),
        ),
    ),
    "with lists of what holds tensors": (
        "class Step(tuple):\n    pass\n"
        "def fit(net, film, replay, seen, empty, named, long, deep):\n    wait()\n"
        "fit(module(Net), [[Tensor(), Tensor()]] * 30, [Step((3, 'a', Tensor(), 4))] * 50, [{'n': 3, 'grad': Tensor()}] * 40,\n"
        "    [[]] * 60, [('a', 1)] * 70, [(1, 2, 3, 4, Tensor())] * 80, [[[Tensor()]]] * 90)",
        Holdings(
            HeldModels(("Net",)),
            lists=(HeldList("film", 30), HeldList("replay", 50), HeldList("seen", 40)),
        ),
    ),
    "nothing of torch's": ("epoch, names, value = 3, ['a'], -5\nwait()", None),
}


@pytest.fixture
def started(tmp_path: Path) -> Any:
    """Start a script with an interpreter, and return its process once it is ready."""
    children = []

    def start(code: str, python: str | Path = sys.executable) -> subprocess.Popen[str]:
        path = tmp_path / f"train{len(children)}.py"
        path.write_text(code, encoding="utf-8")
        children.append(subprocess.Popen([python, str(path)], stdout=subprocess.PIPE, text=True))
        assert children[-1].stdout is not None
        assert children[-1].stdout.readline() == "ready\n"
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def reader_of(process: subprocess.Popen[str]) -> StackReader:
    reader = StackReader(process.pid)
    eventually(reader.read, lambda calls: calls is not None and any(call.function == "wait" for call in calls), 0.01)
    return reader


def held_by(process: subprocess.Popen[str]) -> Holdings | None:
    """What it holds; a stack that changes while it is read shows nothing, so it may take several looks."""
    reader = reader_of(process)
    for _ in range(50):
        found = reader.read_holdings(lambda path: not is_library(path))
        if found is not None:
            break
    return found


@pytest.mark.parametrize("version", SUPPORTED)
def test_what_is_held_is_read_as_it_is(version: str, started: Callable[..., Any]) -> None:
    python = python_of(version)
    found = {name: held_by(started(CLASSES + code, python)) for name, (code, _) in CASES.items()}
    assert found == {name: expected for name, (_, expected) in CASES.items()}


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize(("state", "expected"), [("True", True), ("False", False), ("'odd'", None)])
def test_whether_ddp_exchanges_gradients_is_read(
    version: str, state: str, expected: bool | None, started: Callable[..., Any]
) -> None:
    code = f"ddp = module(DDP, module=module(Net))\nddp.require_backward_grad_sync = {state}\nwait()"
    reader = reader_of(started(CLASSES + code, python_of(version)))
    assert reader.read_exchanges() is None, "it has not been found yet"
    eventually(lambda: reader.read_holdings(lambda path: not is_library(path)), lambda held: held is not None, 0.01)
    assert eventually(reader.read_exchanges, lambda found: found is expected, 0.01) is expected


def test_of_other_models_it_is_not(started: Callable[..., Any]) -> None:
    reader = reader_of(started(CLASSES + "net = module(Net)\nnet.require_backward_grad_sync = True\nwait()"))
    eventually(lambda: reader.read_holdings(lambda path: not is_library(path)), lambda held: held is not None, 0.01)
    assert reader.read_exchanges() is None


LEARNS = """\
Optimizer, opt = of_torch("Optimizer"), None
ddp = module(DDP, module=module(Net))
ddp.find_unused_parameters, ddp.static_graph, ddp.reducer = False, False, object()
opt = new(Optimizer, state=dict.fromkeys(range(3)), param_groups=[{}])
"""


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize(
    ("change", "tensors"),
    [
        ("", 3),
        ("ddp.find_unused_parameters = True", None),
        ("ddp.static_graph = True", None),
        ("del ddp.reducer", None),
        ("del ddp.static_graph", None),
        ("opt.state = {}", None),
        ("opt.state = 7", None),
        ("second = new(Optimizer, state={1: 1}, param_groups=[{}])", None),
        ("other = module(DDP, module=module(Net))", None),
    ],
)
def test_how_many_tensors_an_optimizer_updates_beside_ddp_is_read(
    version: str, change: str, tensors: int | None, started: Callable[..., Any]
) -> None:
    reader = reader_of(started(f"{CLASSES}{LEARNS}{change}\nwait()", python_of(version)))
    assert reader.read_updated() is None, "it has not been found yet"
    eventually(lambda: reader.read_holdings(lambda path: not is_library(path)), lambda held: held is not None, 0.01)
    found = eventually(reader.read_updated, lambda found: (found is None) == (tensors is None), 0.01)
    assert (None if found is None else found.tensors) == tensors


OPTIMIZES = """\
Optimizer = of_torch("Optimizer")
Adam, SGD, Own = of_torch("Adam", Optimizer), of_torch("SGD", Optimizer), of_torch("Muon", Optimizer)
Around = type("AcceleratedOptimizer", (Optimizer,), {"__module__": "accelerate.optimizer"})


def layers(kind=Net):
    made = module(kind, inner=module(Net), drop=module(Dropout))
    made._modules["inner"]._parameters = {"weight": Tensor(), "bias": Tensor(), "extra": None}
    return made


def of(*models):
    return [each for made in models for each in made._modules["inner"]._parameters.values() if each is not None]


def optimizer(kind, tensors, lr=0.1, state=0, **more):
    return new(kind, state=dict.fromkeys(range(state), 1), param_groups=[{"params": tensors, "lr": lr, **more}])


def train(opt, net, other=None, teacher=None):
    wait()


made = [layers(), layers()]
net, before = lambda: made[0], lambda: made[1]  # variables would count as well
"""
MEETS = HeldOptimizers(("Adam",), 2, rate=0.1, is_fresh=False, is_elsewhere=False)
OPTIMIZERS = {
    "of the model": ("train(optimizer(Adam, of(net()), state=2), net())", MEETS),
    "that has updated nothing": ("train(optimizer(Adam, of(net())), net())", replace(MEETS, is_fresh=True)),
    "with momentum": (
        "train(optimizer(SGD, of(net()), momentum=0.9), net())",
        replace(MEETS, names=("SGD",), is_fresh=True),
    ),
    "without momentum": ("train(optimizer(SGD, of(net()), momentum=0), net())", replace(MEETS, names=("SGD",), is_fresh=None)),
    "of another kind": ("train(optimizer(Own, of(net())), net())", replace(MEETS, names=("Muon",), is_fresh=None)),
    "of another model": (
        "train(optimizer(Adam, of(before()), state=2), net())",
        replace(MEETS, is_elsewhere=True, twin="Net"),
    ),
    "of another model that is there": ("train(optimizer(Adam, of(before()), state=2), net(), before())", MEETS),
    "of another model, in DDP": (
        "train(optimizer(Adam, of(before()), state=2), module(DDP, module=net()))",
        replace(MEETS, is_elsewhere=True, twin="DistributedDataParallel"),
    ),
    "of the model, in DDP": ("train(optimizer(Adam, of(net()), state=2), module(DDP, module=net()))", MEETS),
    "beside a teacher": (
        "train(optimizer(Adam, of(before()), state=2), loader(Random()), teacher=net())",
        replace(MEETS, is_elsewhere=True),
    ),
    "of two models": ("train(optimizer(Adam, of(before(), net()), state=4), net())", replace(MEETS, tensors=4)),
    "of a picture": ("train(optimizer(Adam, [Tensor()], state=1), net())", replace(MEETS, tensors=1, is_elsewhere=True)),
    "with a rate of 0": ("train(optimizer(Adam, of(net()), lr=0.0, state=2), net())", replace(MEETS, rate=0.0)),
    "with a rate that is a tensor": (
        "train(optimizer(Adam, of(net()), lr=Tensor(), state=2), net())",
        replace(MEETS, rate=None),
    ),
    "two of them": (
        "train(optimizer(Adam, of(net())), net(), optimizer(SGD, of(before()), lr=0.3, state=2, momentum=0.9))",
        HeldOptimizers(("Adam", "SGD"), 4, rate=0.3, is_fresh=False, is_elsewhere=False),
    ),
    "in accelerate's": ("train(new(Around, optimizer=optimizer(Adam, of(net()), state=2)), net())", MEETS),
    "beside no model": (
        "train(optimizer(Adam, of(net())), None, loader(Random()))",
        replace(MEETS, is_fresh=True, is_elsewhere=None),
    ),
    "with FSDP": (
        "train(optimizer(Adam, of(before())), module(of_torch('FullyShardedDataParallel', Module), inner=net()))",
        None,
    ),
    "without tensors": ("train(optimizer(Adam, []), net())", None),
    "of something else": ("train(new(Adam, state=3, param_groups=7), net())", None),
}


@pytest.mark.parametrize("version", SUPPORTED)
def test_what_optimizers_update_is_read(version: str, started: Callable[..., Any]) -> None:
    python, found = python_of(version), {}
    for name, (code, _) in OPTIMIZERS.items():
        held = held_by(started(f"{CLASSES}{OPTIMIZES}{code}", python))
        found[name] = held.optimizers if held is not None else None
    assert found == {name: expected for name, (_, expected) in OPTIMIZERS.items()}


TORCH = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4))
train_loader, val_loader = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8)
model = nn.DataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.1)))
criterion = nn.MSELoss()


def wait():
    print("ready", flush=True)
    while True:
        time.sleep(0.01)


for epoch in range(2, 9):
    for (x,) in train_loader:
        criterion(model(x), x).backward()
        model.eval()
        wait()
"""


def test_what_torch_makes_is_known(started: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    assert held_by(started(TORCH)) == Holdings(
        HeldModels(("DataParallel",), "DataParallel", evaluates=True, differs=("BatchNorm", "dropout")),
        HeldLoader("train_loader", "TensorDataset", "RandomSampler", is_plain=True, batch_size=8, shuffles=True),
        epoch=2,
    )


class Noise(Memory):
    """Memory in which anything may be, and which refuses some of what it is asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(0)
        self._random = random.Random(seed)

    def read(self, at: int, size: int) -> bytes:
        with suppress(TornError):
            super().read(at, size)  # it counts
        if self._random.random() < 0.001 or size > 2**20 or self._reads > READS_MAX:
            raise TornError
        words = [
            self._random.choice((0, 1, 3, 8, 64, at, 2**40, 2**63, self._random.getrandbits(64))) for _ in range(size // 8 + 1)
        ]
        return struct.pack(f"<{len(words)}Q", *words)[:size]


def test_the_count_of_epochs_is_known_by_its_name() -> None:
    counts = ("epoch", "ep", "cur_epoch", "current_epoch", "epoch_idx", "i_epoch", "epoche", "Epoche", "época", "epoch_num")
    assert [name for name in counts if not _EPOCH.fullmatch(name)] == []
    others = ("epochs", "n_epochs", "num_epochs", "epochen", "max_epoch", "last_epoch", "step", "eps", "episode", "rep")
    assert [name for name in others if _EPOCH.fullmatch(name)] == []


@given(st.integers(), st.sampled_from((10, 11, 12)))
@settings(max_examples=50, deadline=None)
def test_memory_that_changes_is_given_up(seed: int, minor: int) -> None:
    known = layout(minor, lambda size: b"")
    assert known is not None
    objects = Objects(Noise(seed), known, minor, 64)
    names = ("self", "model", "train_loader", "epoch")
    # What ``StackReader`` takes for "nothing was read".
    with suppress(TornError, struct.error, UnicodeDecodeError):
        holdings(objects, [Variable(name, 4096 * place) for place, name in enumerate(names, 1)])


def test_one_look_reads_only_so_often() -> None:
    memory, place = Memory(os.getpid()), id(READS_MAX)
    with memory:
        for _ in range(READS_MAX):
            memory.word(place)
        with pytest.raises(TornError):
            memory.word(place)
    with memory:
        assert memory.word(place), "the next look starts over"


class Kept(StackReader):
    """A reader whose variables are given, and that counts how often it is asked."""

    def __init__(self, held: Holdings | None, exchanges: bool | None = None) -> None:
        self.held, self.exchanges, self.asked = held, exchanges, 0
        self.updated: Updated | None = None
        self.anew: Updated | None = None

    def read_holdings(self, is_own: Callable[[str], bool]) -> Holdings | None:
        self.asked += 1
        assert is_own("/home/user/train.py")
        assert not is_own("/usr/lib/python3.11/queue.py")
        self.updated, self.anew = self.anew or self.updated, None
        return self.held

    def read_exchanges(self) -> bool | None:
        return self.exchanges

    def read_updated(self) -> Updated | None:
        return self.updated


OWN = Call("/home/user/train.py", 7, "main")
THROUGH = (OWN, Call("/x/site-packages/torch/nn/parallel/distributed.py", 1600, "forward"), OWN)
HELD = Holdings(HeldModels(("Net",)))


def test_variables_are_looked_at_while_a_step_computes_and_seldom() -> None:
    reader = Kept(HELD)
    survey = Survey(reader)
    assert survey.look((OWN,), "evaluation", 0.0) is None
    assert survey.look((OWN,), "forward", 1.0) is None
    assert survey.look((OWN,), "backward", 2.0) == HELD
    assert survey.look((OWN,), "optimizer", 1.9 + LOOK_S) == HELD
    assert reader.asked == 1
    reader.held = None
    assert survey.look((OWN,), "optimizer", 2.0 + LOOK_S) == HELD, "what could not be read again is as it was"
    assert reader.asked == 2


def test_a_first_look_that_fails_is_repeated_at_once_a_few_times() -> None:
    reader = Kept(None)
    survey = Survey(reader)
    for second in range(20):
        assert survey.look((OWN,), "backward", second / 2) is None
    assert reader.asked == FAILED_MAX + 1
    reader.held = HELD
    assert survey.look((OWN,), "backward", LOOK_S + FAILED_MAX) == HELD


def test_a_wrapper_is_called_or_not_only_after_enough_forward_passes() -> None:
    survey = Survey(Kept(HELD))
    for second in range(2 * FORWARD_MIN):
        assert survey.look((OWN,), "forward", second) is None, "before the first step, it may evaluate"
    survey.look((OWN,), "backward", 20.0)
    found = [survey.look((OWN,), "forward", 21.0) for _ in range(FORWARD_MIN)]
    assert [getattr(item, "calls_wrapper", "") for item in found] == [None] * (FORWARD_MIN - 1) + [False]
    assert getattr(survey.look(THROUGH, "forward", 22.0), "calls_wrapper", None) is True
    assert getattr(survey.look((OWN,), "forward", 23.0), "calls_wrapper", None) is True, "once is enough"


def test_what_an_optimizer_updates_is_compared_with_what_it_updated_at_first_in_the_same_ddp() -> None:
    reader = Kept(HELD)
    survey = Survey(reader)

    def looked(activity: Activity, updated: Updated | None) -> tuple[int, int] | None:
        reader.updated = updated
        found = survey.look((OWN,), activity, 1.0)
        assert found is not None
        return found.updated

    assert looked("backward", None) is None
    assert looked("optimizer", Updated((1, 2), 1)) is None, "only some tensors of its first step may have their state"
    assert looked("backward", Updated((1, 2), 2)) == (2, 2)
    assert looked("backward", Updated((1, 2), 9)) == (2, 9)
    assert looked("backward", None) == (2, 9)
    reader.held = None
    assert looked("backward", Updated((1, 2), 11)) == (2, 9), "whether it was wrapped anew is unknown"
    reader.held = HELD
    assert looked("backward", Updated((1, 2), 11)) == (2, 11)
    reader.anew = Updated((1, 3), 14)
    assert looked("backward", Updated((1, 2), 14)) == (14, 14), "it was wrapped anew"


def test_ddp_exchanges_nothing_only_after_enough_backward_passes() -> None:
    reader = Kept(HELD, exchanges=False)
    survey = Survey(reader)
    for second in range(BACKWARD_MIN - 1):
        found = survey.look((OWN,), "backward", second)
        assert found is not None
        assert found.exchanges is None
    assert getattr(survey.look((OWN,), "optimizer", 99.0), "exchanges", "") is None, "only backward passes count"
    assert getattr(survey.look((OWN,), "backward", 99.0), "exchanges", None) is False
    reader.exchanges = True
    assert getattr(survey.look((OWN,), "backward", 99.0), "exchanges", None) is True
    reader.exchanges = False
    assert getattr(survey.look((OWN,), "backward", 99.0), "exchanges", None) is True, "once is enough"
    unknown = Survey(Kept(HELD))
    assert all(getattr(unknown.look((OWN,), "backward", second), "exchanges", "") is None for second in range(2 * BACKWARD_MIN))
