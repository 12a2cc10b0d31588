"""Hundreds of the larger of two written numbers ("seventeen or four hundred and two") with a small BERT from scratch and the Trainer."""
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

ONES = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = ["[PAD]", "[CLS]", "[SEP]", "or", "hundred", "and", *ONES, *TEENS, *TENS[2:]]
ID = {w: i for i, w in enumerate(WORDS)}


def spell(n):
    if n >= 100:
        rest = spell(n % 100) if n % 100 else []
        return [ONES[n // 100], "hundred", *(["and", *rest] if rest else [])]
    if n < 10:
        return [ONES[n]]
    if n < 20:
        return [TEENS[n - 10]]
    return [TENS[n // 10], *([ONES[n % 10]] if n % 10 else [])]


class Pairs(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for a, b in rng.integers(0, 1000, (n, 2)):
            ids = [ID[w] for w in ["[CLS]", *spell(int(a)), "or", *spell(int(b)), "[SEP]"]]
            self.rows.append({"input_ids": ids, "labels": max(int(a), int(b)) // 100})

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    width = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r["input_ids"])] = torch.tensor(r["input_ids"])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}


def accuracy(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


if __name__ == "__main__":
    set_seed(12)
    print("vocabulary", len(WORDS), flush=True)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=32, num_labels=10,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            per_device_eval_batch_size=64,
            learning_rate=1.5e-4,
            warmup_steps=200,
            lr_scheduler_type="cosine",
            label_smoothing_factor=0.3,
            max_steps=6000,
            logging_steps=20,
            eval_strategy="steps",
            eval_steps=300,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        trainer = Trainer(
            model=model, args=args, train_dataset=Pairs(40000, 0), eval_dataset=Pairs(500, 1), data_collator=collate,
            compute_metrics=accuracy,
        )  # fmt: skip
        trainer.train()
