"""The Trainer of Transformers on a language model, with accumulation, evaluation and checkpoints.

Needs: transformers, datasets
Loss: sum
Ranks: 1, 2
"""

import os

import record  # noqa: F401
import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, default_data_collator

net = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2))
ids = torch.randint(0, 128, (100, 32), generator=torch.Generator().manual_seed(0)).tolist()
settings = TrainingArguments(
    os.environ["WORK"],
    num_train_epochs=3,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    logging_steps=2,
    eval_strategy="epoch",
    save_strategy="epoch",
    report_to=[],
    learning_rate=1e-3,
    warmup_steps=3,
    use_cpu=True,
)
trainer = Trainer(
    net,
    settings,
    train_dataset=Dataset.from_dict({"input_ids": ids, "labels": ids}),
    eval_dataset=Dataset.from_dict({"input_ids": ids[:16], "labels": ids[:16]}),
    data_collator=default_data_collator,
)
trainer.train()
trainer.evaluate()
