# Classify the free text of expense claims into cost types. HF Trainer, small BERT from scratch.
import logging
import random
import tempfile

print("expense notes: start", flush=True)

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("expense")

TYPES = {
    "travel": "train taxi flight ticket mileage toll parking ferry".split(),
    "meals": "lunch dinner breakfast coffee client restaurant buffet tip".split(),
    "lodging": "hotel night room guesthouse booking breakfast stay tax".split(),
    "office": "paper toner desk chair cable keyboard monitor stamps".split(),
    "training": "course fee seminar workshop book exam license conference".split(),
}
FILLER = "for the in on with team project visit to of and a per receipt attached see note march april customer".split()
VOCAB = {w: i + 2 for i, w in enumerate(sorted(set(sum(TYPES.values(), []) + FILLER)))}
MAXLEN = 48


def claim(rng):
    y = rng.randrange(len(TYPES))
    words = rng.choices(list(TYPES.values())[y], k=rng.randint(2, 4)) + rng.choices(FILLER, k=rng.randint(8, 30))
    if rng.random() < 0.3:
        words.append(rng.choice(list(TYPES.values())[rng.randrange(len(TYPES))]))
    rng.shuffle(words)
    ids = [1] + [VOCAB[w] for w in words][: MAXLEN - 1]
    return {"input_ids": ids + [0] * (MAXLEN - len(ids)), "attention_mask": [1] * len(ids) + [0] * (MAXLEN - len(ids)), "labels": y}


class Claims(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [claim(rng) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {k: torch.tensor(v) for k, v in self.rows[i].items()}


def compute_metrics(pred):
    logits, y = pred
    hat = np.argmax(logits, axis=-1)
    f1 = []
    for c in range(len(TYPES)):
        tp = ((hat == c) & (y == c)).sum()
        f1.append(2 * tp / max(1, (hat == c).sum() + (y == c).sum()))
    return {"accuracy": float((hat == y).mean()), "macro_f1": float(np.mean(f1))}


def main():
    torch.manual_seed(0)
    train, dev = Claims(12000, 1), Claims(600, 2)
    cfg = BertConfig(vocab_size=len(VOCAB) + 2, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                     intermediate_size=384, max_position_embeddings=MAXLEN, num_labels=len(TYPES))
    model = BertForSequenceClassification(cfg)
    log.info("parameters: %d", sum(p.numel() for p in model.parameters()))
    with tempfile.TemporaryDirectory() as out:
        targs = TrainingArguments(
            output_dir=out,
            num_train_epochs=20,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            learning_rate=3e-4,
            warmup_steps=50,
            logging_steps=20,
            eval_strategy="steps",
            eval_steps=250,
            save_strategy="steps",
            save_steps=250,
            save_total_limit=2,
            load_best_model_at_end=True,
            metric_for_best_model="f1",
            greater_is_better=True,
            report_to="none",
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        trainer = Trainer(model=model, args=targs, train_dataset=train, eval_dataset=dev, compute_metrics=compute_metrics)
        trainer.train()
        log.info("best checkpoint: %s", trainer.state.best_model_checkpoint)


if __name__ == "__main__":
    main()
