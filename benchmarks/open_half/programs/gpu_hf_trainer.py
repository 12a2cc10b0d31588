from tempfile import mkdtemp

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, default_data_collator


class Texts(Dataset):
    def __init__(self, n):
        self.ids = (torch.arange(128) * 7 + torch.arange(n)[:, None]) % 1000

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=128, n_embd=512, n_layer=8, n_head=8))
training_args = TrainingArguments(
    output_dir=mkdtemp(), num_train_epochs=500, per_device_train_batch_size=32, per_device_eval_batch_size=32,
    gradient_accumulation_steps=2, learning_rate=3e-4, warmup_steps=50, bf16=True, logging_steps=10, eval_strategy="steps",
    eval_steps=150, save_steps=300, save_total_limit=1, dataloader_num_workers=2, report_to=[],
)
trainer = Trainer(model=model, args=training_args, train_dataset=Texts(8000), eval_dataset=Texts(320), data_collator=default_data_collator)
print("***** Running training *****", flush=True)
trainer.train()
