"""A small GPT-2 from scratch with the Trainer, on recipes that a grammar makes."""
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed

BLOCK = 96


def recipes(n, seed):
    rng = np.random.default_rng(seed)
    verbs = ["chop", "stir", "bake", "fry", "boil", "mix", "grill", "slice"]
    things = ["onions", "carrots", "beef", "rice", "eggs", "flour", "beans", "tofu", "leeks", "salmon"]
    how = ["gently", "for ten minutes", "until golden", "in butter", "with salt", "on high heat"]
    return ["; ".join(f"{rng.choice(verbs)} the {rng.choice(things)} {rng.choice(how)}" for _ in range(rng.integers(3, 7))) + ".\n"
            for _ in range(n)]


class Blocks(Dataset):
    def __init__(self, texts, stoi):
        ids = torch.tensor([stoi[c] for t in texts for c in t])
        self.blocks = ids[: len(ids) // BLOCK * BLOCK].view(-1, BLOCK)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i]}


class Show(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        print(f"step {state.global_step} " + " ".join(
            f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in (logs or {}).items()), flush=True)


def main():
    set_seed(3)
    train_txt, eval_txt = recipes(3000, 1), recipes(120, 2)
    stoi = {c: i for i, c in enumerate(sorted(set("".join(train_txt + eval_txt))))}
    train, dev = Blocks(train_txt, stoi), Blocks(eval_txt, stoi)
    print(f"{len(train)} training blocks, {len(dev)} evaluation blocks, {len(stoi)} characters", flush=True)
    config = GPT2Config(vocab_size=len(stoi), n_positions=BLOCK, n_embd=128, n_layer=3, n_head=4,
                        bos_token_id=0, eos_token_id=0)
    args = TrainingArguments(
        output_dir="gpt2-recipes", num_train_epochs=20, per_device_train_batch_size=16, per_device_eval_batch_size=32,
        learning_rate=6e-4, lr_scheduler_type="cosine", warmup_steps=400, weight_decay=0.1, logging_steps=10,
        eval_strategy="steps", eval_steps=150, save_strategy="no", report_to="none", disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(), seed=3)
    trainer = Trainer(model=GPT2LMHeadModel(config), args=args, train_dataset=train, eval_dataset=dev, callbacks=[Show()])
    trainer.remove_callback(PrinterCallback)
    trainer.train()


if __name__ == "__main__":
    main()
