"""Routes mails to a help desk with a small BERT and the Trainer.

python support_mails.py --output_dir out --learning_rate 5e-4
"""

from __future__ import annotations

import argparse
import random
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, EvalPrediction, Trainer, TrainingArguments, set_seed

TOPICS = {
    "invoice": "invoice amount bank transfer reminder tax receipt due paid",
    "delivery": "parcel courier late tracking address damaged box driver",
    "login": "password account locked reset code email browser session",
    "warranty": "broken repair warranty replace months device battery screen",
    "returns": "return refund size label wrong colour exchange shop",
    "contract": "cancel contract month notice tariff renew period terms",
}
SMALL_TALK = "hello dear team please since yesterday i we the my your it is was not again thanks regards help could you can"
FILLERS = SMALL_TALK.split()
VOCABULARY = ["[PAD]", "[CLS]", *FILLERS, *dict.fromkeys(word for words in TOPICS.values() for word in words.split())]
TOKEN = {word: number for number, word in enumerate(VOCABULARY)}


def write_mails(count: int, seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    mails = []
    for _ in range(count):
        topic = rng.choice(list(TOPICS))
        other = rng.choice(list(TOPICS))
        words = rng.choices(FILLERS, k=rng.randint(12, 24)) + rng.choices(TOPICS[topic].split(), k=5)
        words += rng.choices(TOPICS[other].split(), k=1)
        rng.shuffle(words)
        mails.append((" ".join(words), topic))
    return mails


class Mails(Dataset):
    """Tokens and the number of the topic."""

    def __init__(self, rows: list[tuple[str, str]], length: int) -> None:
        self.label2id = {topic: number for number, topic in enumerate(dict.fromkeys(topic for _, topic in rows))}
        self.items = [self._encode(text, topic, length) for text, topic in rows]

    def _encode(self, text: str, topic: str, length: int) -> dict[str, torch.Tensor]:
        ids = [TOKEN["[CLS]"], *(TOKEN[word] for word in text.split())][:length]
        mask = [1] * len(ids) + [0] * (length - len(ids))
        return {
            "input_ids": torch.tensor(ids + [TOKEN["[PAD]"]] * (length - len(ids))),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(self.label2id[topic]),
        }

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.items[index]


def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default=None)
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--per_device_train_batch_size", type=int, default=32)
    parser.add_argument("--max_length", type=int, default=32)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    set_seed(args.seed)
    torch.set_num_threads(1)

    train = Mails(write_mails(8000, args.seed), args.max_length)
    test = Mails(write_mails(500, args.seed + 1), args.max_length)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=args.max_length,
        num_labels=len(TOPICS),
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir=args.output_dir or tempfile.mkdtemp(prefix="mails-"),
            learning_rate=args.learning_rate,
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=50,
            per_device_train_batch_size=args.per_device_train_batch_size,
            per_device_eval_batch_size=100,
            num_train_epochs=100,
            eval_strategy="steps",
            eval_steps=60,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=train,
        eval_dataset=test,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
