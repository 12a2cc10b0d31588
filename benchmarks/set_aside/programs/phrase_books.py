"""A small GPT-2 on phrase books from a grammar of our own. The grammar has choices at most places, so the loss has a floor
(the entropy of the grammar), which is reached early; we want to see what happens to the attention heads after that.
"""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

LENGTH, VOCAB = 48, 400


class Phrases(Dataset):
    """Words come from 20 classes of 20; the class follows from the one before, the word is free."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(123)
        self.follow = torch.stack([torch.randperm(20, generator=g) for _ in range(3)])
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        branch = torch.randint(0, 3, (LENGTH,), generator=g).tolist()
        word = torch.randint(0, 20, (LENGTH,), generator=g)
        kind = [i % 20]
        for b in branch[1:]:
            kind.append(int(self.follow[b, kind[-1]]))
        ids = torch.tensor(kind) * 20 + word
        return {"input_ids": ids, "labels": ids}


def main():
    set_seed(8)
    config = GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    print("parameters:", model.num_parameters())
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="phrases-"),
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        max_steps=8000,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=200,
        max_grad_norm=0.2,
        logging_steps=25,
        eval_strategy="steps",
        eval_steps=250,
        save_steps=1000,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=Phrases(200_000, 0), eval_dataset=Phrases(256, 10**7)).train()


if __name__ == "__main__":
    main()
