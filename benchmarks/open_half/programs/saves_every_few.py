"""Continues pre-training of a small GPT on our notes. The node is preempted a lot, so save often."""
import shutil
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

OUT = Path(tempfile.gettempdir()) / "notes-gpt"


class Notes(Dataset):
    """Blocks of 64 tokens with some structure in them."""

    def __init__(self, n=20_000, block=64, vocab=24_000):
        self.n, self.block, self.vocab = n, block, vocab

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        start = torch.randint(0, 400, (1,), generator=g)
        ids = (start + torch.arange(self.block) * torch.randint(1, 4, (1,), generator=g)) % self.vocab
        return {"input_ids": ids, "labels": ids.clone()}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    config = GPT2Config(vocab_size=24_000, n_positions=64, n_embd=512, n_layer=2, n_head=8, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters", flush=True)
    args = TrainingArguments(
        output_dir=str(OUT),
        per_device_train_batch_size=1,
        learning_rate=3e-4,
        max_steps=100_000,
        logging_steps=3,
        save_strategy="steps",
        save_steps=3,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(model=model, args=args, train_dataset=Notes()).train()


if __name__ == "__main__":
    main()
