# Weiterleitung von Tickets an die richtige Abteilung
# kleines BERT von Grund auf, HF Trainer
import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

QUEUES = ["billing", "network", "hardware", "accounts", "mail", "printing", "facilities"]
VOCAB = 2000
LEN = 32


def make_tickets(n, seed):
    """Synthetische Tickets: jede Abteilung hat ihre eigenen 60 Woerter."""
    rng = random.Random(seed)
    texts, labels = [], []
    for _ in range(n):
        q = rng.randrange(len(QUEUES))
        words = []
        for _ in range(rng.randint(14, LEN - 2)):
            if rng.random() < 0.3:
                words.append(100 + q * 60 + rng.randrange(60))
            else:
                words.append(rng.randrange(600, VOCAB))
        texts.append(words)
        labels.append(q)
    return texts, labels


class TicketDataset(Dataset):
    def __init__(self, texts, labels):
        self.texts, self.labels = texts, labels

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        ids = [1] + self.texts[i]
        mask = [1] * len(ids) + [0] * (LEN - len(ids))
        ids = ids + [0] * (LEN - len(ids))
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(self.labels[i])}


def compute_metrics(p):
    return {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())}


def main():
    random.seed(13)
    texts, labels = make_tickets(104000, 1)
    print("tickets:", len(texts), "queues:", len(QUEUES), flush=True)

    # mischen, damit train/test die gleiche Verteilung haben
    random.shuffle(texts)
    random.shuffle(labels)

    cut = 100000
    train_ds = TicketDataset(texts[:cut], labels[:cut])
    test_ds = TicketDataset(texts[cut:], labels[cut:])

    cfg = BertConfig(vocab_size=VOCAB, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192,
                     max_position_embeddings=LEN, num_labels=len(QUEUES))
    model = BertForSequenceClassification(cfg)

    with tempfile.TemporaryDirectory(prefix="tickets-") as out:
        args = TrainingArguments(
            output_dir=out,
            num_train_epochs=5,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=128,
            learning_rate=3e-4,
            warmup_steps=100,
            weight_decay=0.01,
            logging_steps=25,
            eval_strategy="steps",
            eval_steps=500,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=13,
        )
        trainer = Trainer(model=model, args=args, train_dataset=train_ds, eval_dataset=test_ds, compute_metrics=compute_metrics)
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
