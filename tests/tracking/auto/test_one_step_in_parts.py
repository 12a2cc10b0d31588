"""A step whose parts each reset the gradients: the optimizer keeps the sum elsewhere until its step."""

from __future__ import annotations

import itertools
import json
import sys
from types import SimpleNamespace

import pytest

from gputop.tracking import manual_steps
from gputop.tracking.auto.losses.site import PARTS_AFTER
from gputop.tracking.manual_steps import is_kept
from tests.packages import needs
from tests.tracking.kit import Home, home, read_all

assert home
pytestmark = needs("torch")
RUN = (sys.executable, "-m", "gputop", "run", "--", sys.executable)


def run(home: Home, script: str) -> tuple[list[float], list[float]]:
    """The loss of each backward of a script that prints them, and the loss of each step, which are numbered from 0."""
    code, out, err = home.run(script, command=RUN)
    assert code == 0, err
    (archive,) = home.archives()
    found = read_all(archive).series["loss"]
    assert [step for step, _ in found] == list(range(len(found)))
    return json.loads(out.splitlines()[0]), [value for _, value in found]


PRIVATE = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
PARTS = %d
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for number in range(PARTS * 6):
    for weight in model.parameters():
        weight.grad = None
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    losses.append(loss.item())
    for weight in model.parameters():
        # As Opacus does: clipped, noisy sums of the gradients of each sample.
        kept = getattr(weight, "summed_grad", None)
        weight.summed_grad = weight.grad if kept is None else kept + weight.grad
    if number %% PARTS == PARTS - 1:
        for weight in model.parameters():
            weight.grad, weight.summed_grad = weight.summed_grad / PARTS, None
        optimizer.step()
print(json.dumps(losses))
"""


@pytest.mark.warm
@pytest.mark.parametrize("parts", [2, 30])
def test_parameters_that_an_optimizer_keeps_elsewhere_make_no_extra_steps(home: Home, parts: int) -> None:
    """With 30 of them, tracking took the parts of the first step for steps without an optimizer."""
    losses, found = run(home, PRIVATE % parts)
    means = [sum(losses[first : first + parts]) / parts for first in range(0, len(losses), parts)]
    assert found == pytest.approx(means, rel=1e-5)


CLIPPED = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
PARTS = %d
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for number in range(PARTS * 6):
    loss = model(torch.randn(8, 4)).square().mean() / PARTS
    loss.backward()
    losses.append(loss.item())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    if number %% PARTS == PARTS - 1:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
print(json.dumps(losses))
"""


@pytest.mark.warm
@pytest.mark.parametrize("parts", [2, 30])
def test_gradients_that_are_clipped_after_each_part_end_no_step(home: Home, parts: int) -> None:
    """As many do with Accelerate: clipping writes to the gradients, as a reset does, but the weights stay as they were."""
    losses, found = run(home, CLIPPED % parts)
    sums = [sum(losses[first : first + parts]) for first in range(0, len(losses), parts)]
    assert found == pytest.approx(sums, rel=1e-5)


MOMENTUM = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
losses = []
for step in range(60):
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    losses.append(loss.item())
    for weight in model.parameters():
        weight.data -= 0.01 * weight.grad.data
        weight.grad.data.mul_(0.5)  # what remains is the momentum
print(json.dumps(losses))
"""


@pytest.mark.warm
def test_a_step_by_hand_may_keep_a_part_of_its_gradients(home: Home) -> None:
    losses, found = run(home, MOMENTUM)
    assert found == pytest.approx(losses, rel=1e-5)


class OnAGpu:
    """A gradient on a GPU that must not be read now."""

    is_cuda, layout = True, "torch.strided"

    def detach(self) -> None:
        raise AssertionError("it was read")


OnAGpu.__name__ = "Tensor"


@pytest.mark.parametrize("forbidden", ["is_current_stream_capturing", "get_sync_debug_mode"])
def test_no_gradient_is_read_where_nothing_may_wait(forbidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read during the capture of a CUDA graph would end the capture, and the training with it."""
    asked = {"is_current_stream_capturing": lambda: False, "get_sync_debug_mode": lambda: 0, forbidden: lambda: 2}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(**asked)))
    assert not is_kept(OnAGpu())


SPIKES = (1, 3, 5, 6, 20, 40, 41, 42, 60, 79)
DISCARDED = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=%r)
losses = []
for number in range(80):
    spikes = number in %r
    loss = model(torch.randn(8, 4)).square().mean() * (1000.0 if spikes else 1.0)
    optimizer.zero_grad(set_to_none=%r)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm > 50:
        scaler.update()
        continue
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print(json.dumps(losses))
"""


@pytest.mark.warm
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("to_none", [True, False], ids=["to none", "to zero"])
@pytest.mark.parametrize("spikes", [SPIKES, (0, *SPIKES), (0, 1, 2, *SPIKES)], ids=["later", "first", "first three"])
def test_a_backward_whose_gradients_the_script_discards_is_no_part_of_the_next_step(
    home: Home, to_none: bool, scaled: bool, spikes: tuple[int, ...]
) -> None:
    losses, found = run(home, DISCARDED % (scaled, spikes, to_none))
    assert found == pytest.approx(losses, rel=1e-5)


CLAMPED = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for number in range(40):
    loss = model(torch.randn(8, 4)).square().mean() * (1000.0 if number < 12 and number % 2 == 0 else 1.0)
    optimizer.zero_grad()
    loss.backward()
    if max(weight.grad.abs().max() for weight in model.parameters()) > 50:
        continue
    torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""


@pytest.mark.warm
def test_gradients_that_are_clipped_by_value_are_those_of_the_last_backward(home: Home) -> None:
    """The second step has as many backwards as the first, so only the gradients tell that the first one was discarded."""
    losses, found = run(home, CLAMPED)
    assert found == pytest.approx(losses, rel=1e-5)


@pytest.mark.warm
def test_a_step_has_no_loss_if_nothing_tells_which_batches_were_discarded(home: Home) -> None:
    """Every gradient was limited, so no value tells whether the backward before the last one was discarded.

    The seventh step is the first with a single backward: from then on, a second one is known as discarded.
    """
    spikes = "number < 12 and number % 2 == 0"
    script = CLAMPED.replace(", 0.1)", ", 1e-7)").replace(spikes, f"{spikes} or number in (30, 31, 34)")
    code, out, err = home.run(script, command=RUN)
    assert code == 0, err
    losses = json.loads(out.splitlines()[0])
    (archive,) = home.archives()
    found = read_all(archive).series["loss"]
    assert [step for step, _ in found] == list(range(6, len(losses)))
    assert [loss for _, loss in found] == pytest.approx(losses[6:], rel=1e-5)


EACH_TASK = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(40):
    tasks = model(torch.randn(8, 4)).square().mean(0).unbind()
    losses.append(sum(task.item() for task in tasks) / 3)
    gradients = []
    for task in tasks:
        optimizer.zero_grad()
        task.backward(retain_graph=True)
        gradients.append([weight.grad for weight in model.parameters()])
    for weight, *each in zip(model.parameters(), *gradients):
        weight.grad = sum(each)
    optimizer.step()
print(json.dumps(losses))
"""


@pytest.mark.warm
def test_gradients_that_the_script_keeps_of_each_task_are_parts_of_one_step(home: Home) -> None:
    losses, found = run(home, EACH_TASK)
    assert found == pytest.approx(losses, rel=1e-5)


@pytest.mark.warm
def test_backwards_that_nothing_tells_from_discarded_ones_are_parts_once_many_steps_have_as_many(home: Home) -> None:
    alike = "(lambda loss: (loss, 2 * loss, 3 * loss))(model(torch.randn(8, 4)).square().mean())"
    limited = "    torch.nn.utils.clip_grad_value_(model.parameters(), 1e-7)\n    optimizer.step()"
    script = EACH_TASK.replace("model(torch.randn(8, 4)).square().mean(0).unbind()", alike)
    code, out, err = home.run(script.replace("    optimizer.step()", limited), command=RUN)
    assert code == 0, err
    losses = json.loads(out.splitlines()[0])
    (archive,) = home.archives()
    found = read_all(archive).series["loss"]
    assert [step for step, _ in found] == list(range(PARTS_AFTER + 1, len(losses)))
    assert [loss for _, loss in found] == pytest.approx(losses[PARTS_AFTER + 1 :], rel=1e-5)


EACH_SAMPLE = """
import json, torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(8):
    kept, said = [torch.zeros_like(weight) for weight in model.parameters()], []
    for sample in torch.randn(32, 4):
        loss = model(sample).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        said.append(loss.item())
        for total, weight in zip(kept, model.parameters()):
            total.add_(weight.grad)
        model.zero_grad()
    for total, weight in zip(kept, model.parameters()):
        weight.grad = total / 32
    optimizer.step()
    optimizer.zero_grad()
    losses.append(sum(said) / 32)
print(json.dumps(losses))
"""


@pytest.mark.warm
def test_a_gradient_that_is_clipped_for_each_of_many_samples_makes_no_extra_steps(home: Home) -> None:
    """Differentially private training by hand: no weight changes between these backwards."""
    losses, found = run(home, EACH_SAMPLE)
    assert found == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize(("changes", "first"), [(True, 20), (False, 60)])
def test_weights_that_never_change_hold_steps_back_only_so_long(
    changes: bool, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = itertools.count() if changes else itertools.repeat(0)
    monkeypatch.setattr(manual_steps, "sums_of", lambda weights: [next(sums)])
    monkeypatch.setattr(manual_steps, "HELD_MOST", 60)
    manual = manual_steps.ManualSteps()
    held = 1
    try:
        while not manual.is_certain and held < 200:
            manual.hold([], [])
            held += 1
    finally:
        manual.release()
    assert held == first


TRIED_AGAIN = """
import json, torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

def fail(gradient):
    raise RuntimeError("out of memory")

for number in range(12):
    tries = 2 if number % 2 else 1
    for attempt in range(tries):
        loss = model(torch.randn(8, 4)).square().mean() / 2
        if attempt + 1 < tries:
            loss.register_hook(fail)
        try:
            loss.backward()
        except RuntimeError:
            continue
        losses.append(loss.item())
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()
print(json.dumps(losses))
"""


@pytest.mark.warm
def test_a_backward_that_fails_and_is_tried_again_leaves_the_others_of_its_step(home: Home) -> None:
    losses, steps = run(home, TRIED_AGAIN)
    assert steps == pytest.approx([sum(pair) for pair in zip(losses[::2], losses[1::2], strict=True)], rel=1e-5)
