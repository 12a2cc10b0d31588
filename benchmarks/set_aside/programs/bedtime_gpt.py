"""Bedtime stories with a tiny GPT-2 and the Trainer. The stories that it tells on the way are for the children."""
import os
import random
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

HEROES, PLACES, THINGS = ["fox", "owl", "girl", "bear", "mole"], ["in the wood", "by the sea", "on a hill", "under a stone"], ["a lamp", "a bell", "a boat", "bread"]
CHARS = sorted(set("".join(HEROES + PLACES + THINGS) + " abcdefghijklmnopqrstuvwxyz.,\n"))
ID = {c: i for i, c in enumerate(CHARS)}


class Tales(Dataset):
    def __init__(self, n=4000, length=64):
        rng = random.Random(4)
        self.rows = []
        for _ in range(n):
            s = ""
            while len(s) <= length:
                s += f"a {rng.choice(HEROES)} {rng.choice(PLACES)} had {rng.choice(THINGS)}. "
            self.rows.append(torch.tensor([ID[c] for c in s[:length]]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class TellStories(TrainerCallback):
    def __init__(self, every=25, stories=8, length=100):
        self.every, self.stories, self.length = every, stories, length

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if state.global_step % self.every:
            return
        model.eval()
        start = torch.full((self.stories, 1), ID["a"])
        with torch.no_grad():
            out = model.generate(start, max_new_tokens=self.length, do_sample=True, temperature=0.8, use_cache=False,
                                 attention_mask=torch.ones_like(start), pad_token_id=ID["\n"])
        model.train()
        print(f"--- {state.global_step}:", "".join(CHARS[i] for i in out[0].tolist())[:90], flush=True)


class PrintLoss(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.bedtime = time.time() + 210

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop |= time.time() > self.bedtime

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print({"step": state.global_step, "loss": logs["loss"], "lr": logs.get("learning_rate")}, flush=True)


if __name__ == "__main__":
    config = GPT2Config(vocab_size=len(CHARS), n_positions=128, n_embd=64, n_layer=2, n_head=4, bos_token_id=ID["\n"], eos_token_id=None)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, per_device_train_batch_size=8, max_steps=8000, learning_rate=1e-3, logging_steps=10,
                                 save_strategy="no", report_to=[], disable_tqdm=True, dataloader_num_workers=0, use_cpu=True)
        Trainer(GPT2LMHeadModel(config), args, train_dataset=Tales(), callbacks=[TellStories(), PrintLoss()]).train()
