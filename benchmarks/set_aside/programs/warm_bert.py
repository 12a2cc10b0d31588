"""Masked language model from scratch (BERT, small). A long warm-up: the loss hardly moves at first."""
import os
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments

VOCAB, MASK, LENGTH = 600, 1, 48


class Sentences(Dataset):
    def __init__(self, n=8000):
        g = torch.Generator().manual_seed(0)
        topic = torch.randint(0, 23, (n, 1), generator=g)
        self.ids = 2 + 26 * topic + torch.randint(0, 26, (n, LENGTH), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i].clone()
        labels = ids.clone()
        hide = torch.rand(LENGTH) < 0.15
        ids[hide] = MASK
        labels[~hide] = -100
        return {"input_ids": ids, "labels": labels}


class Lines(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.until = time.time() + 210

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop |= time.time() > self.until

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in (logs or {}):
            print(f"{state.global_step:5d}  loss {logs['loss']}  lr {logs['learning_rate']}  grad_norm {logs['grad_norm']}", flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    config = BertConfig(vocab_size=VOCAB, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, max_position_embeddings=64)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, per_device_train_batch_size=16, max_steps=12000, learning_rate=1.5e-3,
                                 warmup_steps=300, lr_scheduler_type="cosine", logging_steps=10, save_strategy="no", report_to=[],
                                 disable_tqdm=True, use_cpu=True)
        Trainer(BertForMaskedLM(config), args, train_dataset=Sentences(), callbacks=[Lines()]).train()
