"""Short steps with more than one plain loss: accumulated, scaled, both, two of them; each in a run that the script opens.

With "gpu", tracking takes each loss for one on a GPU (``late``). Prints the losses of each step, and how many steps were fast.
"""

import json
import sys

import late
import torch

import gputop
from gputop.tracking.auto import install

torch.set_num_threads(1)
STEPS = 160
GPU = "gpu" in sys.argv
if GPU:
    late.pretend(1)
torch.manual_seed(1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)


def parts(model, number):
    """Micro-batches of a step; every seventh step has one fewer."""
    for _ in range(2 if number % 7 == 6 else 3):
        yield model(torch.randn(4, 4)).square().mean()


def accumulated(model, optimizer, number):
    said = []
    for loss in parts(model, number):
        (loss / 3).backward()
        said.append(loss.item())
    optimizer.step()
    return {"auto/loss": sum(said) / len(said)}


def scaled(model, optimizer, number):
    loss = model(torch.randn(4, 4)).square().mean()
    scaler.scale(loss).backward()
    if number % 20 == 19:
        model.weight.grad[0, 0] = float("inf")  # the scaler skips the step
    scaler.step(optimizer)
    scaler.update()
    return {"auto/loss": loss.item()}


def scaled_and_accumulated(model, optimizer, number):
    said = []
    for loss in parts(model, number):
        scaler.scale(loss / 3).backward()
        said.append(loss.item())
    scaler.step(optimizer)
    scaler.update()
    return {"auto/loss": sum(said) / len(said)}


def two(model, optimizer, number):
    first = model(torch.randn(4, 4)).square().mean()
    first.backward()
    second = model(torch.randn(4, 4)).abs().mean()
    second.backward()
    if number % 20 == 19:
        second = model(torch.randn(4, 4)).abs().mean()
        second.backward()  # on another line, which shares the name
    optimizer.step()
    found = {"auto/loss/first": first.item(), "auto/loss/second": second.item()}
    return found if number % 20 != 19 else {"auto/loss/first": first.item()}


told = {}
for case in (accumulated, scaled, scaled_and_accumulated, two):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses, fast = [], 0
    with gputop.init(name=case.__name__):
        for number in range(STEPS):
            optimizer.zero_grad()
            losses.append(case(model, optimizer, number))
            fast += install.tracked().training.fast.mode == "fast"
        if GPU:
            late.let_all_arrive()
    told[case.__name__] = {"losses": losses, "fast": fast}
print(json.dumps(told))
