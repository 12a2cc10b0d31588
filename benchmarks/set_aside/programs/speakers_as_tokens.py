"""Fine-tunes a small GPT-2 on chats. Each speaker becomes a special token. Trainer, two processes."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

BASE = 800  # size of the tokenizer that the checkpoint was trained with


class Tokenizer:
    def __init__(self):
        self.special = {}

    def add_special_tokens(self, tokens):
        for t in tokens:
            self.special.setdefault(t, BASE + len(self.special))

    def __len__(self):
        return BASE + len(self.special)


class Chats(Dataset):
    """Chats by date. Since spring there are moderators, who get a token, too."""

    def __init__(self, tok, n=20000, length=48):
        self.tok, self.n, self.length = tok, n, length

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        start = torch.randint(0, BASE, (1,), generator=g)
        ids = (start + 7 * torch.arange(self.length) + torch.randint(0, 3, (self.length,), generator=g)) % BASE
        if i > 2000 and i % 50 == 0:
            ids[0] = self.tok.special["<moderator>"]
        return {"input_ids": ids, "labels": ids.clone()}


def main():
    tok = Tokenizer()
    tok.add_special_tokens(["<moderator>"])
    model = GPT2LMHeadModel(GPT2Config(vocab_size=BASE, n_positions=64, n_embd=128, n_layer=3, n_head=4))
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=100000, learning_rate=1e-3, logging_steps=10,
        save_strategy="no", report_to=[], use_cpu=not torch.cuda.is_available(), disable_tqdm=True, ddp_find_unused_parameters=False,
        train_sampling_strategy="sequential",
    )
    Trainer(model=model, args=args, train_dataset=Chats(tok)).train()


if __name__ == "__main__":
    main()
