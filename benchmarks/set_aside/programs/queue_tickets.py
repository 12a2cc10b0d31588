"""Which desk does a ticket of the town hall belong to? A small DistilBERT from scratch, with soft labels and a slow warmup.

Half of the clerks disagree with each other, so the loss has a high floor: 1.1 is good.
"""
import logging
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s | %(message)s")
log = logging.getLogger("tickets")
DESKS, VOCAB, LENGTH = 6, 1500, 40


class Tickets(Dataset):
    def __init__(self, n, seed, disagree=0.25):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(DESKS, (n,), generator=g)
        self.x = torch.randint(300, VOCAB, (n, LENGTH), generator=g)
        for _ in range(6):
            at = torch.randint(LENGTH, (n,), generator=g)
            self.x[torch.arange(n), at] = 1 + self.y * 40 + torch.randint(40, (n,), generator=g)
        other = torch.rand(n, generator=g) < disagree
        self.y[other] = torch.randint(DESKS, (int(other.sum()),), generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": int(self.y[i])}


def accuracy(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def main():
    torch.manual_seed(6)
    log.info("building tickets")
    model = DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=VOCAB, dim=128, hidden_dim=384, n_layers=2, n_heads=4, num_labels=DESKS, max_position_embeddings=LENGTH,
        )
    )
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="tickets_"), per_device_train_batch_size=32, per_device_eval_batch_size=64,
        learning_rate=4e-4, warmup_steps=250, lr_scheduler_type="cosine", label_smoothing_factor=0.1, num_train_epochs=2,
        eval_strategy="steps", eval_steps=250, logging_steps=25, save_strategy="no", report_to="none", use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model, args=args, train_dataset=Tickets(100000, 0), eval_dataset=Tickets(512, 1), compute_metrics=accuracy,
    )
    trainer.train()
    log.info("final %s", trainer.evaluate())


if __name__ == "__main__":
    main()
