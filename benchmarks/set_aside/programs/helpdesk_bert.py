"""Fine-tunes a small BERT on help desk messages with the Transformers Trainer."""
import argparse
import collections
import random
import time

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainerCallback,
                          TrainingArguments)

TOPICS = ["login", "printer", "network", "mail", "phone"]


def make_messages(count, seed=0):
    rng = random.Random(seed)
    common = ["".join(rng.choices("aeioulmnrst", k=rng.randrange(2, 9))) for _ in range(1500)]
    special = {t: ["".join(rng.choices("bcdfghkpvwy", k=rng.randrange(3, 8))) for _ in range(60)] for t in TOPICS}
    texts, labels = [], []
    for _ in range(count):
        label = rng.randrange(len(TOPICS))
        words = [rng.choice(special[TOPICS[label]]) if rng.random() < 0.15 else rng.choice(common) for _ in range(30)]
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


class PieceTokenizer:
    """Byte-pair merges learned from the messages."""

    def __init__(self, texts, merges):
        words = collections.Counter(w for t in texts for w in t.split())
        pieces = {w: list(w) for w in words}
        self.merges = []
        for _ in range(merges):
            pairs = collections.Counter()
            for w, n in words.items():
                for pair in zip(pieces[w], pieces[w][1:]):
                    pairs[pair] += n
            if not pairs:
                break
            best = max(pairs, key=pairs.get)
            self.merges.append(best)
            for w in words:
                pieces[w] = self.merge(pieces[w], best)
        self.words = pieces
        self.ids = {p: i + 2 for i, p in enumerate(sorted({p for w in pieces.values() for p in w}))}

    @staticmethod
    def merge(parts, pair):
        out, i = [], 0
        while i < len(parts):
            if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
                out.append(parts[i] + parts[i + 1])
                i += 2
            else:
                out.append(parts[i])
                i += 1
        return out

    def __call__(self, text, length):
        ids = [1] + [self.ids[p] for w in text.split() for p in self.words[w]]
        ids = ids[:length]
        return ids + [0] * (length - len(ids))


class Messages(Dataset):
    def __init__(self, texts, labels, length=64, merges=200):
        self.texts, self.labels, self.length, self.merges = texts, labels, length, merges
        self.tokenizer = None       # made on first use, in the worker

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        if self.tokenizer is None:
            self.tokenizer = PieceTokenizer(self.texts, self.merges)
        ids = torch.tensor(self.tokenizer(self.texts[index], self.length))
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": self.labels[index]}


class Lines(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.began = time.time()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step}/{state.max_steps} epoch {state.epoch:.2f} loss {float(logs['loss']):.4f} "
                  f"lr {float(logs['learning_rate']):.2e} {time.time() - self.began:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)
    texts, labels = make_messages(args.messages)
    config = BertConfig(vocab_size=2000, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=256, max_position_embeddings=80, num_labels=len(TOPICS))
    model = BertForSequenceClassification(config)
    settings = TrainingArguments(
        output_dir="helpdesk_bert_out", num_train_epochs=args.epochs, per_device_train_batch_size=args.batch_size,
        learning_rate=5e-4, lr_scheduler_type="constant", logging_steps=8, save_strategy="no", report_to=[],
        dataloader_num_workers=args.workers, dataloader_pin_memory=torch.cuda.is_available(), disable_tqdm=True, seed=1)
    trainer = Trainer(model=model, args=settings, train_dataset=Messages(texts, labels), callbacks=[Lines()])
    trainer.remove_callback(PrinterCallback)
    trainer.train()


if __name__ == "__main__":
    main()
