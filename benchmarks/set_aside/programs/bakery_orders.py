"""What will the bakery's customers order next? A small causal model over order lines, with the Trainer."""
import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

ITEMS, LENGTH = 300, 32


class Orders(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        steps = torch.randint(1, 6, (n, 1), generator=g)
        start = torch.randint(0, ITEMS, (n, 1), generator=g)
        self.ids = (start + steps * torch.arange(LENGTH + 1)) % ITEMS

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i, :-1], "labels": self.ids[i, 1:]}


class NextItem(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.emb = nn.Embedding(ITEMS, d)
        self.pos = nn.Parameter(torch.zeros(LENGTH, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d, ITEMS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, input_ids, labels=None):
        logits = self.out(self.body(self.emb(input_ids) + self.pos, mask=self.mask))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


args = TrainingArguments(
    output_dir=tempfile.mkdtemp(prefix="orders-"),
    per_device_train_batch_size=32,
    per_device_eval_batch_size=32,
    num_train_epochs=50,
    learning_rate=5e-4,
    lr_scheduler_type="cosine",
    warmup_steps=50,
    logging_steps=10,
    eval_strategy="steps",
    eval_steps=20,
    save_strategy="steps",
    save_steps=20,
    save_total_limit=2,
    load_best_model_at_end=True,
    prediction_loss_only=True,
    report_to="none",
    disable_tqdm=True,
    use_cpu=not torch.cuda.is_available(),
)
trainer = Trainer(model=NextItem(), args=args, train_dataset=Orders(16000, 0), eval_dataset=Orders(4000, 1))
print(f"{len(trainer.train_dataset)} orders", flush=True)
trainer.train()
