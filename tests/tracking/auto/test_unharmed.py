"""Trainings with objects, hooks and streams of their own that tracking must not use up, replace or hold up."""

from __future__ import annotations

import json
import sys

import pytest

from gputop.tracking.auto.training.optimizers import GROUPS_MAX, Optimizers
from tests.packages import needs
from tests.tracking.auto.test_auto import RUN, series
from tests.tracking.kit import Home, home, read_all, without_checkout

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

TRAIN = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)

def train(model, steps=6, weights=None):
    optimizer = torch.optim.SGD(weights or model.parameters(), lr=0.1)
    for _ in range(steps):
        loss = model(torch.ones(2, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
"""
ODD = {
    "a module whose parameters are a list": """
class Model(torch.nn.Linear):
    def parameters(self, recurse=True):
        return [weight for weight in super().parameters(recurse) if weight.requires_grad]

model = Model(4, 1)
print(list(train(model)))
with torch.no_grad():
    print(model.eval()(torch.ones(2, 4)).tolist())
""",
    "a module whose parameters cannot be listed while it is evaluated": """
class Model(torch.nn.Linear):
    def parameters(self, recurse=True):
        if not self.training:
            raise RuntimeError("they are elsewhere now")
        return super().parameters(recurse)

model = Model(4, 1)
print(list(train(model)))
with torch.no_grad():
    print(model.eval()(torch.ones(2, 4)).tolist())
""",
    "a module that notes what it is asked for": """
asked = []

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))

    def forward(self, inputs):
        return self.inner(inputs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            asked.append(name)
            return getattr(super().__getattr__("inner"), name)

    @property
    def batch_first(self):
        asked.append("batch_first")

    def parameters(self, recurse=True):
        asked.append("parameters")
        return super().parameters(recurse)

    def named_parameters(self, *given, **named):
        asked.append("named_parameters")
        return super().named_parameters(*given, **named)

    def modules(self):
        asked.append("modules")
        return super().modules()

    def children(self):
        asked.append("children")
        return super().children()

model = Model()
print(list(train(model)))
asked.clear()
weights = list(torch.nn.Module.parameters(model))
asked.clear()
print(list(train(model, weights=weights)))
model.forward(torch.ones(2, 4))
with torch.no_grad():
    model(torch.ones(2, 4))
print(list(train(model, weights=weights)), asked)
""",
    "arguments of the names of ours": """
import gc

class Model(torch.nn.Linear):
    def forward(self, inputs, module=None, tensor=None, cls=None):
        return super().forward(inputs)

class Called(Model):
    def __call__(this, inputs, self=None):
        return super().__call__(inputs, module=self)

class Below(Called):
    pass

gc.freeze()
for kind, given in ((Model, {"module": 1, "tensor": 2, "cls": 3}), (Below, {"self": 4}), (Called, {"self": 5})):
    model = kind(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gc.freeze()
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4), **given).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item())
    gc.unfreeze()
    for _ in range(3):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        print(model(torch.ones(2, 4), **given).sum().item())
""",
    "a class that takes no attributes": """
class Closed(type):
    def __setattr__(cls, name, value):
        raise TypeError(f"{name} is not yours")

class Model(torch.nn.Linear, metaclass=Closed):
    pass

print(list(train(Model(4, 1), 20)), Model.__call__ is torch.nn.Linear.__call__)
""",
    "a clock that stands still": """
import sys, time
print(list(train(torch.nn.Linear(4, 1), 2)))
for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns"):
    real = getattr(time, name)
    for module in [found for found in sys.modules.values() if getattr(found, "__dict__", {}).get(name) is real]:
        setattr(module, name, lambda now=real(): now)
print(list(train(torch.nn.Linear(4, 1), 200)))
""",
    "saved tensors that are given back once": """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stored = {}

def pack(tensor):
    stored[pack.number] = tensor
    pack.number += 1
    return pack.number - 1

pack.number = 0
for outside in [False] * 4 + [True] * 4:
    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(pack, stored.pop):
            loss = model(torch.ones(2, 4)).square().sum()
            loss = loss if outside else loss / torch.tensor(4)
        loss = loss / torch.tensor(4) if outside else loss
        loss.backward()
        print(loss.item(), len(stored))
    optimizer.step()
    optimizer.zero_grad()
""",
    "a loss in a checkpoint": """
from torch.utils.checkpoint import checkpoint
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
calls = 0

def loss_of(inputs, count):
    global calls
    calls += 1
    return model(inputs).square().sum() / count

for _ in range(4):
    for _ in range(2):
        checkpoint(loss_of, torch.ones(2, 4), torch.tensor(4), use_reentrant=False).backward()
    optimizer.step()
    optimizer.zero_grad()
print(calls)
""",
    "a model that is traced while it trains": """
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
for number, loss in enumerate(train(model, 12)):
    if number in (1, 5, 9):
        print(torch.jit.trace(model, torch.ones(2, 4)).graph)
""",
    "functions of torch in a process that is to call them": """
import pickle
for function in (torch.cuda.empty_cache, torch.save, torch.autograd.backward):
    print(pickle.loads(pickle.dumps(function)) is function)
print(list(train(torch.nn.Linear(4, 1))))
""",
    "process groups in Python": """
import torch.distributed as dist

class Mine(dist.ProcessGroup):
    def __init__(self):
        super().__init__(0, 1)

    def allreduce(self, tensors, options=None):
        raise ValueError("mine")

    def alltoall_base(self, output, input, output_sizes, input_sizes, options=None):
        raise ValueError("mine, by an older name")

group, tensor = Mine(), torch.ones(3)
for call in (
    lambda: group.allreduce([tensor]),
    lambda: group.broadcast([tensor], dist.BroadcastOptions()),
    lambda: group.barrier(dist.BarrierOptions()),
    lambda: group.send([tensor], 0, 0),
    lambda: group.alltoall_base(tensor.clone(), tensor, [], [], dist.AllToAllOptions()),
    lambda: getattr(group, "all_to_all_single", group.alltoall_base)(tensor.clone(), tensor, [], [], dist.AllToAllOptions()),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
print(list(train(torch.nn.Linear(4, 1))))
""",
    "batches that are loaded when they are asked for": """
from collections.abc import Mapping
asked = []

class Lazy(Mapping):
    def __getitem__(self, name):
        asked.append(name)
        return torch.ones(2, 4)

    def __iter__(self):
        return iter(["inputs"])

    def __len__(self):
        return 1

class Held:
    @property
    def data(self):
        asked.append("data")

    def __getattr__(self, name):
        asked.append(name)
        raise AttributeError(name)

loader = torch.utils.data.DataLoader(range(32), collate_fn=lambda rows: [Held(), Lazy()], batch_size=2)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for held, lazy in loader:
    optimizer.zero_grad()
    model(lazy["inputs"]).mean().backward()
    optimizer.step()
print(asked)
""",
}


@pytest.mark.parametrize("kind", ODD)
def test_a_script_with_odd_objects_does_what_it_does_without_gputop(home: Home, kind: str) -> None:
    plain = home.run(TRAIN + ODD[kind])
    assert plain[0] == 0, plain[2]
    code, out, err = home.run(TRAIN + ODD[kind], command=(*RUN, sys.executable))
    assert (code, out) == plain[:2], err
    assert "gputop" not in without_checkout(err)
    assert len(series(home)["loss"]) >= 4, "it is tracked all the same"


WHERE = """
import pickle, traceback, warnings
from torch.utils.data import DataLoader, IterableDataset

class Short(IterableDataset):
    def __repr__(self):
        return "Short"

    def __len__(self):
        return 1

    def __iter__(self):
        yield from torch.ones(3, 4)

class Model(torch.nn.Linear):
    fails = False

    def forward(self, inputs):
        warnings.warn("forward", stacklevel=5)  # the line that calls the model
        if self.fails:
            raise ValueError("forward")
        return super().forward(inputs)

model = Model(4, 1)
model.register_full_backward_hook(lambda *given: None)
list(train(model, 30))
for _ in range(2):
    loader = DataLoader(Short(), batch_size=1)
    print(len(loader), [len(batch) for batch in loader])
tensors = [torch.ones(2, requires_grad=True).square().sum()]
torch.autograd.backward(tensors, grad_variables=[torch.ones(())])

def fails():
    model.fails = True
    list(train(model, 1))

def again():
    tensors[0].backward()

def saves():
    torch.save(lambda: None, "/none/weights")

def loads():
    list(DataLoader([1], collate_fn=lambda rows: 1 / 0))
"""
ENDS = {
    "an error in forward": "fails()",
    "an error in backward, while others are handled": """
try:
    loads()
except ZeroDivisionError:
    try:
        saves()
    except RuntimeError:
        again()
""",
    "an error in print": """
import sys
sys.stdout.reconfigure(encoding="ascii")
print("caf\\u00e9")
""",
    "an error with a cause": """
try:
    again()
except RuntimeError as error:
    raise OSError("no") from error
""",
    "a program that is not there": "import os\nos.execv('/none', ['none'])",
}


@pytest.mark.parametrize("end", ENDS)
def test_warnings_and_errors_name_the_lines_that_they_name_without_gputop(home: Home, end: str) -> None:
    script = f"{TRAIN}{WHERE}{ENDS[end]}\n"
    plain = home.run(script)
    assert plain[0] == 1
    assert plain[2].count("Warning") == 5, "each at each line once"
    code, out, err = home.run(script, command=(*RUN, sys.executable))
    assert (code, out, err.replace("script1", "script0")) == plain


PROFILED = """
import sys
model = torch.nn.Linear(4, 1)
list(train(model, 2))
calls = 0

def count(frame, event, argument):
    global calls
    calls += 1

sys.setprofile(count)
list(train(model, 3))
sys.setprofile(None)
print(calls)
"""


def test_a_profile_of_all_calls_does_not_overflow_with_gputop_calls(home: Home) -> None:
    plain = int(home.run(TRAIN + PROFILED)[1])
    code, out, err = home.run(TRAIN + PROFILED, command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    assert int(out) < plain + 30_000, "not one for each object of the process, of which there are 300,000"


FAILS = """
import sys

class Failing(torch.autograd.Function):
    forward = staticmethod(lambda ctx, value: value.clone())

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("the script's own")

def fail():
    raise RuntimeError("as where a GPU is lost: nothing can be computed on it")

model = torch.nn.Linear(4, 1)
list(train(model))
sys.modules["gputop.tracking.auto.install"].tracked().training.sites.take_back = fail
try:
    Failing.apply(model(torch.ones(2, 4)).mean()).backward()
except Exception as error:
    print(repr(error), error.__context__)
"""


def test_an_error_in_backward_reaches_the_script_and_not_one_of_ours(home: Home) -> None:
    code, out, err = home.run(TRAIN + FAILS, command=(*RUN, sys.executable))
    assert (code, out) == (0, 'ValueError("the script\'s own") None\n'), err
    assert "automatic tracking stops, the training continues" in err


TEE = """
import sys
log, write = [], sys.stdout.write

def tee(text):
    log.append(text)
    return write(text)

sys.stdout.write = tee
for number, loss in enumerate(train(torch.nn.Linear(4, 1), 30)):
    print("step", number, "loss:", loss)
print("".join(log).count("step"), file=sys.stderr)
"""


def test_a_script_that_writes_what_it_prints_to_a_log_too_keeps_doing_so(home: Home) -> None:
    plain = home.run(TRAIN + TEE)
    assert plain[2] == "30\n"
    assert home.run(TRAIN + TEE, command=(*RUN, sys.executable)) == plain
    assert len(series(home)["loss"]) == 30


EACH = """
import gc, sys
model = torch.nn.Sequential(*[torch.nn.Linear(4, 4, bias=False) for _ in range(60)])
optimizers = {weight: torch.optim.SGD([weight], lr=1e-3) for weight in model.parameters()}

def step(weight):
    optimizers[weight].step()
    optimizers[weight].zero_grad()

for weight in model.parameters():
    weight.register_post_accumulate_grad_hook(step)
said = []
for _ in range(12):
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    said.append(loss.item())
print(said)
tracked = sys.modules["gputop.tracking.auto.install"].tracked()
print(tracked.models.searches._number, sum(map(len, tracked.training.optimizers._together)))
"""


def test_an_optimizer_for_each_weight_costs_one_search_and_its_iterations_are_recorded(home: Home) -> None:
    code, out, err = home.run(TRAIN + EACH, command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    losses, counts = out.splitlines()
    assert counts == "1 60", "neither a search nor a pair for each of them"
    (archive,) = home.archives()
    found = read_all(archive).series
    assert [value for _, value in found["loss"]] == pytest.approx(json.loads(losses)), "one loss an iteration"
    assert [step for step, _ in found["loss"]] == list(range(12))


EXCHANGED = """
import faulthandler, tempfile
import torch.distributed as dist
faulthandler.dump_traceback_later(90, exit=True)
dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + tempfile.mktemp())
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizers = {weight: torch.optim.SGD([weight], lr=0.02) for weight in model.parameters()}
wrapped = torch.nn.parallel.DistributedDataParallel(model)

def exchange(state, bucket):
    def step(future):
        for weight, gradient in zip(bucket.parameters(), bucket.gradients()):
            weight.grad = gradient.clone()
            optimizers[weight].step()
            weight.grad = None
        return bucket.buffer()

    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(step)

wrapped.register_comm_hook(None, exchange)
said = []
for _ in range(30):
    loss = wrapped(torch.ones(2, 4)).square().mean()
    wrapped.zero_grad()
    loss.backward()
    said.append(loss.item())
print(said)
dist.destroy_process_group()
"""


def test_optimizers_that_step_while_ddp_exchanges_gradients_are_not_held_up(home: Home) -> None:
    """DDP holds its lock meanwhile: whoever then asks it for its facts waits for ever."""
    plain = home.run(TRAIN + EXCHANGED)
    assert plain[0] == 0, plain[2]
    assert home.run(TRAIN + EXCHANGED, command=(*RUN, sys.executable)) == plain
    assert len(series(home)["loss"]) >= 28
    assert home.only_run().ranks[0].facts["ddp"]["world_size"] == 1, "asked after the backward"


def together(found: Optimizers, *numbers: int) -> list[bool]:
    """Step these optimizers in one iteration, without a loader, and return which of them began one."""
    began = []
    for number in numbers:
        began.append(found.begins_iteration(number, has_loader=False))
        if began[-1]:
            found.close_iteration()
        found.add(number)
    found.close_iteration()
    return began


def test_optimizers_that_once_shared_an_iteration_share_it_again() -> None:
    found = Optimizers()
    assert together(found, 0, 1, 2) == [False] * 3, "the first iteration shows who does"
    assert together(found, 2, 0) == [False, False]
    assert together(found, 0, 1, 2) == [False] * 3
    assert together(found, 0, 3) == [False, True], "another one trains after it"
    assert together(found, *range(3), 4)[-1] is True
    for number in range(10, 10 + 2 * GROUPS_MAX):
        together(found, number)
    assert len(found._together) == 1, "single ones share nothing"


ONE_LINE = """
import json
weights = [torch.nn.Parameter(torch.randn(4)) for _ in range(3)]
optimizer = torch.optim.SGD(weights, lr=0.01)
said = []
for _ in range(12):
    optimizer.zero_grad()
    loss_a, loss_b = weights[0].square().sum(), weights[1].square().mean()
    loss_a.backward(); loss_b.backward()
    weights[2].abs().sum().mul(2).backward(); weights[2].abs().mean().backward()
    said.append([loss_a.item(), loss_b.item(), 2 * weights[2].abs().sum().item(), weights[2].abs().mean().item()])
    optimizer.step()
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 Python does not know which part of a line runs")
def test_losses_of_one_line_have_a_name_each(home: Home) -> None:
    code, out, err = home.run(TRAIN + ONE_LINE, command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    found = {name: list(values.values()) for name, values in series(home).items() if name.startswith("loss")}
    lines = (TRAIN + ONE_LINE).splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "mul(2)" in text)
    names = ("loss/loss_a", "loss/loss_b", f"loss/line{line}:{line}", f"loss/line{line}:{line}:2")
    expected = zip(names, zip(*json.loads(out), strict=True), strict=True)
    assert found == {name: pytest.approx(losses) for name, losses in expected}
