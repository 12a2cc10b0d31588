"""Small GPT-2 from scratch with the Hugging Face Trainer, on a synthetic grammar."""
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import random

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

set_seed(17)
NOUNS = [f"n{i}" for i in range(120)]
VERBS = [f"v{i}" for i in range(60)]
ADJ = [f"a{i}" for i in range(40)]
VOCAB = {w: i + 2 for i, w in enumerate(["the", "a", "that", "."] + NOUNS + VERBS + ADJ)}
BLOCK = 96


def np_(r):
    return [r.choice(["the", "a"])] + ([r.choice(ADJ)] if r.random() < 0.4 else []) + [r.choice(NOUNS)]


def sentence(r):
    s = np_(r)
    if r.random() < 0.3:
        s += ["that", r.choice(VERBS)] + np_(r)
    return s + [r.choice(VERBS)] + np_(r) + ["."]


class Blocks(Dataset):
    def __init__(self, n_tokens, seed):
        r, toks = random.Random(seed), []
        while len(toks) < n_tokens:
            toks += [VOCAB[w] for w in sentence(r)]
        self.t = torch.tensor(toks[:n_tokens // BLOCK * BLOCK]).view(-1, BLOCK)

    def __len__(self):
        return len(self.t)

    def __getitem__(self, i):
        return {"input_ids": self.t[i], "labels": self.t[i]}


class Printer(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        if logs:
            print(f"step {state.global_step}: " + ", ".join(f"{k}={v:.4g}" for k, v in logs.items() if isinstance(v, (int, float))), flush=True)


if __name__ == "__main__":
    print("building corpus ...", flush=True)
    train, dev = Blocks(600_000, 0), Blocks(20_000, 1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(VOCAB) + 2, n_positions=BLOCK, n_embd=128, n_layer=3, n_head=4,
                                       bos_token_id=0, eos_token_id=1))
    args = TrainingArguments(
        output_dir="/tmp/tinylm_out", per_device_train_batch_size=8, gradient_accumulation_steps=3,
        learning_rate=8e-4, warmup_steps=150, lr_scheduler_type="cosine", weight_decay=0.1, max_steps=4000,
        logging_steps=5, eval_strategy="steps", eval_steps=50, per_device_eval_batch_size=16,
        save_strategy="no", report_to=[], disable_tqdm=True, dataloader_pin_memory=torch.cuda.is_available(),
        bf16=torch.cuda.is_available(), seed=17)
    print(f"{len(train)} blocks, {model.num_parameters() / 1e6:.2f}M parameters", flush=True)
    trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=dev, callbacks=[Printer()])
    trainer.train()
