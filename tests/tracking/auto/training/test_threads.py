"""Trainings that move from thread to thread, take turns on several threads, or run beside each other."""

from __future__ import annotations

import json
import sys

import pytest

from tests.packages import needs
from tests.tracking.auto.test_auto import RUN, series
from tests.tracking.kit import Home, home, read_all

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

TRAIN = """
import json, threading, torch
from concurrent.futures import ThreadPoolExecutor
torch.set_num_threads(1)
torch.manual_seed(0)
said = []


def made():
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def backward(model, optimizer):
    optimizer.zero_grad()
    loss = (model(torch.randn(8, 4)) - 1).square().mean()
    loss.backward()
    return loss.item()


def iterations(model, optimizer, count=20):
    for _ in range(count):
        said.append(backward(model, optimizer))
        optimizer.step()


def on_a_new_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def goes_on_waiting(function, *arguments):
    done, until = threading.Event(), threading.Event()

    def work():
        function(*arguments)
        done.set()
        until.wait()

    threading.Thread(target=work, daemon=True).start()
    done.wait()
    return until


def on_threads_that_wait():
    for _ in range(3):
        goes_on_waiting(lambda: iterations(*made()))


def by_two_in_turn(first, second, count=30):
    for number in range(count):
        (second if number % 3 == 1 else first)(number)


WAY
print(json.dumps(said))
"""
WAYS = {
    "a training on each of several threads": "for _ in range(3): on_a_new_thread(iterations, *made())",
    "a training on each of several threads that go on waiting": "on_threads_that_wait()",
    "one on the main thread, then one on another": "iterations(*made())\non_a_new_thread(lambda: iterations(*made()))",
    "a thread for each epoch": "one = made()\nfor _ in range(3): on_a_new_thread(iterations, *one)",
    "steps by two threads in turn": """
one = made()
with ThreadPoolExecutor(1) as other:
    by_two_in_turn(lambda _: iterations(*one, 1), lambda _: other.submit(iterations, *one, 1).result())
""",
    "backward on one thread, steps on another": """
one = made()
with ThreadPoolExecutor(1) as other:
    for _ in range(30):
        said.append(other.submit(backward, *one).result())
        one[1].step()
""",
    "scaled steps by two threads in turn": """
one = made()
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def scaled_step(_):
    one[1].zero_grad()
    loss = (one[0](torch.randn(8, 4)) - 1).square().mean()
    scaler.scale(loss).backward()
    scaler.step(one[1])
    scaler.update()
    said.append(loss.item())


with ThreadPoolExecutor(1) as other:
    by_two_in_turn(scaled_step, lambda _: other.submit(scaled_step, _).result())
""",
    "steps on one thread, backward on another": """
one = made()
with ThreadPoolExecutor(1) as other:
    for _ in range(30):
        said.append(backward(*one))
        other.submit(one[1].step).result()
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_training_is_followed_from_thread_to_thread(home: Home, way: str) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", WAYS[way]), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    found = series(home)["loss"]
    assert list(found) == list(range(len(found)))
    assert list(found.values()) == pytest.approx(json.loads(out), rel=1e-5)


PIPELINE = """
import queue


class Stage:
    def __init__(self, layer):
        self.layer, self.tasks, self.done = layer, queue.Queue(), queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            self.done.put(self.tasks.get()())


first, last = Stage(torch.nn.Linear(4, 8)), Stage(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD([*first.layer.parameters(), *last.layer.parameters()], lr=0.01)


def end(cut):
    here = cut.detach().requires_grad_()
    loss = (last.layer(here) - 1).square().mean() / PIECES
    loss.backward()
    return loss.item(), here.grad


for _ in range(30):
    optimizer.zero_grad()
    for piece in torch.randn(4 * PIECES, 4).chunk(PIECES):
        first.tasks.put(lambda piece=piece: first.layer(piece))
    cuts, total = [], 0.0
    for _ in range(PIECES):
        cuts.append(first.done.get())
        last.tasks.put(lambda cut=cuts[-1]: end(cut))
    for cut in cuts:
        loss, gradients = last.done.get()
        total += loss
        first.tasks.put(lambda cut=cut, gradients=gradients: cut.backward(gradients))
    for _ in cuts:
        first.done.get()
    said.append(total)
    optimizer.step()
"""


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_pipeline_of_stages_on_threads_of_their_own_is_one_training(home: Home, pieces: int) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", PIPELINE.replace("PIECES", str(pieces))), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    recorded, told = series(home), json.loads(out)
    assert list(recorded["lr"]) == list(range(30))
    for step, loss in recorded["loss"].items():
        assert loss == pytest.approx(told[step], rel=1e-5)
    assert set(recorded["loss"]) >= set(range(2, 30))


SHARED = """
optimizer = torch.optim.SGD([*(one := made()[0]).parameters(), *(two := made()[0]).parameters()], lr=0.01)


def half(model):
    loss = (model(torch.randn(4, 4)) - 1).square().mean() / 2
    loss.backward()
    return loss.item()


with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
    for _ in range(30):
        optimizer.zero_grad()
        said.append(first.submit(half, one).result() + second.submit(half, two).result())
        optimizer.step()
"""


def test_a_loss_that_may_lack_a_part_is_not_recorded(home: Home) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", SHARED), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    recorded, told = series(home), json.loads(out)
    assert list(recorded["lr"]) == list(range(30))
    assert recorded.get("loss", {}) == {step: pytest.approx(told[step], rel=1e-5) for step in recorded.get("loss", {})}


BESIDE = """
ready = [threading.Event() for _ in range(2)]


def take_turns(which, work, count):
    for _ in range(count):
        ready[which].wait()
        ready[which].clear()
        work()
        ready[1 - which].set()


one, other = made(), made()
parts = []


def accumulates():
    # Its parts lie between the steps of the other training.
    if len(parts) % 4 == 0:
        one[1].zero_grad()
    loss = (one[0](torch.randn(8, 4)) - 1).square().mean() / 4
    loss.backward()
    parts.append(loss.item())
    if len(parts) % 4 == 0:
        said.append(sum(parts[-4:]))
        one[1].step()


def trains_too():
    backward(*other)
    other[1].step()


def two_parts():
    accumulates()
    accumulates()


for _ in range(4):
    two_parts()
threads = [threading.Thread(target=take_turns, args=given) for given in ((0, two_parts, 64), (1, trains_too, 64))]
[thread.start() for thread in threads[1:]]
ready[0].set()
threads[0].run()
[thread.join() for thread in threads[1:]]
"""


def test_a_training_next_to_another_one_changes_none_of_its_numbers_and_is_reported(home: Home) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", BESIDE), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    found = series(home)["loss"]
    assert list(found.values()) == pytest.approx(json.loads(out), rel=1e-5)
    (archive,) = home.archives()
    assert sum("64 steps on other threads" in str(value) for _, _, value in read_all(archive).events) == 1


GOES_ON = """
import time
one, other = made(), made()
iterations(*one, 5)


def trains_on():
    until = time.monotonic() + 4.0
    while time.monotonic() < until:
        backward(*other)
        other[1].step()
        time.sleep(0.005)


on_a_new_thread(trains_on)
"""


def test_a_script_that_continues_on_another_thread_is_not_stalled(home: Home) -> None:
    script = TRAIN.replace("WAY", GOES_ON)
    code, _, err = home.run(script, command=(*RUN, sys.executable), GPUTOP_STALL_S="2")
    assert (code, err) == (0, "")
    (archive,) = home.archives()
    events = [str(value) for _, _, value in read_all(archive).events]
    assert any("steps on other threads" in event for event in events)
    assert not any("stalled" in event for event in events)


SCALED = """
one, other = made(), made()
scalers = [torch.amp.GradScaler("cpu", init_scale=1024.0) for _ in range(2)]


def scaled(which, model, optimizer):
    optimizer.zero_grad()
    loss = (model(torch.randn(8, 4)) - 1).square().mean()
    return loss, scalers[which].scale(loss)


def step(which, loss, optimizer):
    loss.backward()
    scalers[which].step(optimizer)
    scalers[which].update()


with ThreadPoolExecutor(1) as pool:
    for number in range(20):
        loss, large = scaled(0, *one)
        said.append(loss.item())
        if number:
            theirs = pool.submit(scaled, 1, *other).result()[1]
        step(0, large, one[1])
        if number:
            pool.submit(step, 1, theirs, other[1]).result()
"""


def test_a_loss_is_not_shown_scaled_because_another_thread_scales_one(home: Home) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", SCALED), command=(*RUN, sys.executable))
    assert (code, err) == (0, "")
    assert list(series(home)["loss"].values()) == pytest.approx(json.loads(out), rel=1e-5)
    (archive,) = home.archives()
    assert sum("19 steps on other threads" in str(value) for _, _, value in read_all(archive).events) == 1


HOGWILD = """
one = made()


lock = threading.Lock()


def train(own):
    for _ in range(200):
        with lock:  # torch itself does not survive two of these at once
            loss = backward(*one)
        with lock:
            one[1].step()
        own.append(loss)


kept = [[] for _ in range(4)]
threads = [threading.Thread(target=train, args=(own,)) for own in kept]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
said += [len(own) for own in kept]
"""


def test_threads_that_train_one_model_at_the_same_time_are_not_disturbed(home: Home) -> None:
    code, out, err = home.run(TRAIN.replace("WAY", HOGWILD), command=(*RUN, sys.executable))
    assert (code, out, err) == (0, "[200, 200, 200, 200]\n", "")
    assert series(home)["loss"]
