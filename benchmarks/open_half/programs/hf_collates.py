"""Fine-tune a tiny classifier on support tickets.  python hf_collates.py --epochs 50 --bs 32"""
import re
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

WORDS = "printer login refund broken invoice password slow crash thanks hello screen cable order late angry".split()


@dataclass
class Args:
    epochs: int = 50
    bs: int = 32
    max_len: int = 48


class Tickets(Dataset):
    def __init__(self, n=6000):
        g = torch.Generator().manual_seed(5)
        self.rows = [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (60,), generator=g).tolist()) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"text": self.rows[i], "label": int(self.rows[i].count("refund") > 4)}


class CleanAndPad:
    """Strips signatures and quotes, then maps words to ids."""

    def __init__(self, max_len):
        self.max_len = max_len
        self.rules = [re.compile(rf"(\b{w}\b\s+)+{v}\b") for w in WORDS for v in WORDS]

    def __call__(self, rows):
        ids = torch.zeros(len(rows), self.max_len, dtype=torch.long)
        for n, row in enumerate(rows):
            text = row["text"]
            for rule in self.rules:
                text = rule.sub(lambda m: m.group(0).lower(), text)
            words = text.split()[: self.max_len]
            ids[n, : len(words)] = torch.tensor([1 + WORDS.index(w) for w in words])
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([row["label"] for row in rows])}


if __name__ == "__main__":
    (args,) = HfArgumentParser(Args).parse_args_into_dataclasses()
    torch.set_num_threads(1)
    config = BertConfig(vocab_size=len(WORDS) + 1, hidden_size=48, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    setup = TrainingArguments("/tmp/tickets", num_train_epochs=args.epochs, per_device_train_batch_size=args.bs, logging_steps=10,
                              save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, remove_unused_columns=False, learning_rate=5e-4)
    Trainer(BertForSequenceClassification(config), setup, train_dataset=Tickets(), data_collator=CleanAndPad(args.max_len)).train()
