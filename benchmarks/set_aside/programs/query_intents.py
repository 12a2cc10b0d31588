"""Intents of search queries. The night queue stops each job after its slice; the next slice resumes from the checkpoint."""
import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

INTENTS, LEN = 9, 20
SLICES = (400, 1600, 20000)


class Queries(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            k = rng.randrange(INTENTS)
            ids = [1] + [50 + 40 * k + rng.randrange(55) if rng.random() < 0.2 else rng.randrange(500, 1500) for _ in range(LEN - 1)]
            self.rows.append((ids, k))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, k = self.rows[i]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.ones(LEN, dtype=torch.long), "labels": k}


class Say(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kw):
        if logs and "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss']):.4f} lr {float(logs['learning_rate']):.2e}", flush=True)


def run_slice(steps, folder, data, resume):
    model = DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=1500, dim=96, n_layers=2, n_heads=4, hidden_dim=192, max_position_embeddings=LEN, num_labels=INTENTS))
    args = TrainingArguments(output_dir=folder, max_steps=steps, per_device_train_batch_size=32, learning_rate=5e-4, logging_steps=20,
                             lr_scheduler_type="constant_with_warmup", warmup_steps=100, save_steps=400, save_total_limit=1,
                             report_to="none", disable_tqdm=True, use_cpu=True, seed=5)
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[Say()])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=True if resume else None)


def main():
    set_seed(5)
    data = Queries(30000, 0)
    with tempfile.TemporaryDirectory(prefix="intents-") as folder:
        for i, steps in enumerate(SLICES):
            print(f"--- slice {i}: until step {steps}" + (", resumes from the last checkpoint" if i else ""), flush=True)
            run_slice(steps, folder, data, resume=i > 0)


if __name__ == "__main__":
    main()
