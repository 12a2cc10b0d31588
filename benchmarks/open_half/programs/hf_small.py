"""transformers Trainer on a toy task: tiny BERT, evaluation and a checkpoint every 60 steps"""
import tempfile, torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.x = torch.randint(5, 800, (n, 48))
        self.y = (self.x[:, 1:6].sum(1) % 3 == 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "attention_mask": torch.ones(48, dtype=torch.long), "labels": self.y[i]}


model = BertForSequenceClassification(BertConfig(vocab_size=800, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, max_position_embeddings=64))
with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        out, use_cpu=True, per_device_train_batch_size=32, per_device_eval_batch_size=64, learning_rate=5e-4, warmup_steps=30,
        num_train_epochs=500, logging_steps=10, eval_strategy="steps", eval_steps=60, save_steps=60, save_total_limit=1, report_to=[],
    )
    Trainer(model, args, train_dataset=Rows(6000), eval_dataset=Rows(800)).train()
