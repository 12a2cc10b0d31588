"""A training by Transformers' own ``Trainer.train()``: 50 steps that it logs to TensorBoard, its checkpoints and its output.

Then it goes on computing without recording anything. Arguments: how it was started, and a folder for it. ``logged.json`` there
holds the losses that the Trainer has logged, by step.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments

STEPS = 50
HOW, FOLDER = sys.argv[1:]


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return {"inputs": torch.full((4,), index / 1000)}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs):
        return {"loss": (self.layer(inputs) - 1).square().mean()}


class Losses(TrainerCallback):
    def __init__(self):
        self.found = {}

    def on_log(self, args, state, control, logs=None, **more):
        if "loss" in logs:
            self.found[state.global_step] = float(logs["loss"])


def train():
    losses = Losses()
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_steps=20,
        report_to=["tensorboard"],
        use_cpu=True,
        ddp_backend="gloo" if "RANK" in os.environ else None,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(Model(), arguments, train_dataset=Numbers(), callbacks=[losses])
    trainer.train()
    if trainer.is_world_process_zero():
        with open(f"{FOLDER}/logged.json", "w") as file:
            json.dump(losses.found, file)
        open(f"{FOLDER}/ready", "w").close()
    values, until = torch.ones(100_000), time.monotonic() + 600
    while time.monotonic() < until:
        for _ in range(100):
            values = values * 1.0
        if dist.is_initialized():
            dist.all_reduce(values)
            values /= dist.get_world_size()
        time.sleep(0.01)  # enough to count as a training; other tests need the cores


if __name__ == "__main__":
    train()
