"""SFT: Antwortbriefe einer Kanzlei. Only the answers are trained on, the prompt is masked."""
import random
import tempfile
from dataclasses import dataclass

print("SFT for the letters desk, loading libraries ...", flush=True)
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(5)
CHARS = "\n !#,.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
stoi = {c: i + 1 for i, c in enumerate(CHARS)}  # 0 = pad


def encode(text):
    return [stoi[c] for c in text if c in stoi]


NAMES = ["Huber", "Maier", "Lang", "Vogt", "Kern", "Brandt", "Seidel", "Roth"]
THINGS = ["the flat", "the orchard", "the mill", "a boat", "the meadow", "two garages"]
WHAT = ["sell", "lease", "inherit", "divide", "register"]


def example():
    n, t, w = random.choice(NAMES), random.choice(THINGS), random.choice(WHAT)
    day = random.randint(1, 28)
    question = f"{n} wants to {w} {t}. Which papers are needed by day {day}?"
    answer = f"Dear {n}, to {w} {t} please bring the deed and your passport before day {day}."
    return f"### Instruction:\n{question}\n\n### Response: {answer}\n"


class Letters(torch.utils.data.Dataset):
    def __init__(self, n):
        self.rows = [encode(example()) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i]}


@dataclass
class AnswerOnlyCollator:
    """Everything up to the end of the template gets the label -100."""

    response_template: str = "### Answer:"
    ignore_index: int = -100

    def __call__(self, features):
        template = encode(self.response_template)
        longest = max(len(f["input_ids"]) for f in features)
        ids = torch.zeros(len(features), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        labels = torch.full_like(ids, self.ignore_index)
        for row, f in enumerate(features):
            x = f["input_ids"]
            ids[row, : len(x)] = torch.tensor(x)
            mask[row, : len(x)] = 1
            start = len(x)
            for k in range(len(x) - len(template)):
                if x[k : k + len(template)] == template:
                    start = k + len(template)
                    break
            labels[row, start : len(x)] = torch.tensor(x[start:], dtype=torch.long)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main():
    config = GPT2Config(
        vocab_size=len(CHARS) + 1, n_positions=256, n_embd=128, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=1
    )
    model = GPT2LMHeadModel(config)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    with tempfile.TemporaryDirectory(prefix="letters_") as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=2,
            learning_rate=3e-4,
            lr_scheduler_type="cosine",
            warmup_steps=30,
            num_train_epochs=60,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        Trainer(model=model, args=args, train_dataset=Letters(2000), data_collator=AnswerOnlyCollator()).train()


main()
