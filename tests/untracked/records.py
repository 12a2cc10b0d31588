"""A training of 50 steps that the libraries in its first arguments record; then it goes on without recording anything.

Arguments: how it was started, a folder for it, and what records it.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

STEPS = 50
HOW, FOLDER, *SOURCES = sys.argv[1:]
RESTS_S = float(os.environ.get("TEST_RESTS_S", "0.01"))
"""Other tests need the cores. Without rest, it is as busy as trainings are."""


def tensorboard():
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("runs/exp1")
    return lambda step, loss: writer.add_scalar("loss", loss, step), writer.flush


def wandb():
    import wandb

    run = wandb.init(mode="offline", settings=wandb.Settings(silent=True))
    # Without commit, a step is written when the next one begins.
    return lambda step, loss: run.log({"loss": loss}, step=step, commit=True), lambda: None


def csv():
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(".")
    return lambda step, loss: logger.log_metrics({"train_loss": loss}, step), logger.save


def trainer():
    from transformers.trainer_callback import TrainerState

    state = TrainerState()
    os.makedirs(f"out/checkpoint-{STEPS}")

    def save():
        state.global_step = STEPS
        state.save_to_json(f"out/checkpoint-{STEPS}/trainer_state.json")

    return lambda step, loss: state.log_history.append({"loss": loss, "step": step}), save


def output():
    return lambda step, loss: print(f"step {step} loss {loss:.6f}", flush=True), lambda: None


def train(rank, world):
    if world > 1:
        where = None if HOW == "torchrun" else f"file://{FOLDER}/meet"
        dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world)
    made = [globals()[name]() for name in SOURCES] if rank == 0 else []
    for step in range(1, STEPS + 1):
        for log, _ in made:
            log(step, 1 / step)
    for _, save in made:
        save()
    if rank == 0:
        with open(f"{FOLDER}/ready.part", "w") as file:
            json.dump(os.getpid(), file)
        os.rename(f"{FOLDER}/ready.part", f"{FOLDER}/ready")
    values, until = torch.ones(100_000), time.monotonic() + 600
    while time.monotonic() < until:
        for _ in range(100):
            values = values * 1.0
        if world > 1:
            dist.all_reduce(values)
            values /= world
        time.sleep(RESTS_S)


if __name__ == "__main__":
    if HOW == "torchrun":
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    elif HOW == "spawn":
        torch.multiprocessing.spawn(train, (2,), nprocs=2)
    else:
        train(0, 1)
