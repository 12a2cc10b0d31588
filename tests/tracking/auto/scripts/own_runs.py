"""Trainings of one process, each with a run of its own, that log as people do: seldom, in parts, by epoch, with own steps."""

import json

import torch

import gputop as wandb

torch.set_num_threads(1)
said = {}


def model_of(seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def loss_of(model):
    return model(torch.randn(8, 4)).square().mean()


def step_of(model, optimizer, micro_batches=1):
    total = 0.0
    for _ in range(micro_batches):
        loss = loss_of(model) / micro_batches
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def evaluated_now_and_then(name):
    """As nanoGPT: evaluations are logged, without a step, and gradients are accumulated."""
    model, optimizer = model_of(1)
    wandb.init(project="p", name=name)
    losses, own = [], []
    for number in range(25):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (1 + number)
        if number % 8 == 0:
            model.eval()
            with torch.no_grad():
                means = {split: sum(loss_of(model).item() for _ in range(3)) / 3 for split in ("train", "val")}
            model.train()
            own.append({"iter": number, "train/loss": means["train"], "val/loss": means["val"], "lr": 7.0})
            wandb.log(own[-1])
        losses.append(step_of(model, optimizer, micro_batches=4))
    wandb.finish()
    return {"losses": losses, "own": own, "at": list(range(len(own)))}


def logged_in_parts(name):
    model, optimizer = model_of(2)
    run = wandb.init(name=name)
    losses, own = [], []
    for number in range(12):
        losses.append(step_of(model, optimizer))
        own.append({"a": number * 1.0, "b": number * 2.0, "loss": 100.0 + number})
        run.log({"a": own[-1]["a"]}, commit=False)
        run.log({"b": own[-1]["b"]}, commit=False)
        run.log({"loss": own[-1]["loss"]})
        assert run.step == number + 1, run.step
    run.finish()
    return {"losses": losses, "own": own, "at": list(range(12))}


def logged_by_epoch(name):
    model, optimizer = model_of(3)
    run = wandb.init(name=name)
    losses, own = [], []
    for epoch in range(3):
        losses += [step_of(model, optimizer) for _ in range(30)]
        own.append({"loss": sum(losses[-30:]) / 30, "epoch": epoch * 1.0})
        run.log(own[-1])
    run.finish()
    return {"losses": losses, "own": own, "at": [0, 1, 2]}


def logged_each_tenth_step(name):
    model, optimizer = model_of(4)
    losses, own = [], []
    with wandb.init(name=name):
        for number in range(200):
            losses.append(step_of(model, optimizer))
            if number % 10 == 0:
                own.append({"train/loss": losses[-1]})
                wandb.log(own[-1], step=5000 + number)
    return {"losses": losses, "own": own, "at": [5000 + number for number in range(0, 200, 10)]}


def never_logged(name):
    model, optimizer = model_of(5)
    run = wandb.init(name=name)
    losses = [step_of(model, optimizer) for _ in range(6)]
    run.finish()
    return {"losses": losses, "own": [], "at": []}


def logged_each_fourth_step(name, **identity):
    model, optimizer = model_of(6)
    run = wandb.init(name=name, **identity)
    losses, own = [], []
    for number in range(10):
        losses.append(step_of(model, optimizer))
        if number % 4 == 0:
            own.append({"train/loss": losses[-1]})
            run.log(own[-1])
    run.finish()
    return {"losses": losses, "own": own, "at": [0, 1, 2]}


def resumed(name):
    return {**logged_each_fourth_step(name, resume="kept"), "at": [3, 4, 5], "from": 10}


for case in (evaluated_now_and_then, logged_in_parts, logged_by_epoch, logged_each_tenth_step, never_logged):
    said[case.__name__] = case(case.__name__)
said["begun"] = logged_each_fourth_step("begun", id="kept")
said["resumed"] = resumed("resumed")
print(json.dumps(said))
