"""A small language model for menu cards: next dish, given the kind of restaurant."""
import os
import tempfile

print("menu cards LM", flush=True)

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

VOCAB, LENGTH = 300, 48


class Menus(torch.utils.data.Dataset):
    """Dishes follow each other by a table of transitions that depends on the kind of restaurant."""

    def __init__(self, n, seed, kinds=3):
        table = torch.randint(0, VOCAB - kinds, (kinds, VOCAB, 6), generator=torch.Generator().manual_seed(0))
        g = torch.Generator().manual_seed(seed)
        kind = torch.randint(0, kinds, (n,), generator=g)
        word = torch.randint(0, VOCAB - kinds, (n,), generator=g)
        rows = [VOCAB - kinds + kind, word]
        for _ in range(LENGTH - 2):
            word = table[kind, word, (torch.rand(n, generator=g) ** 2 * 6).long()]
            rows.append(word)
        self.ids = torch.stack(rows, 1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    set_seed(8)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCAB, n_positions=LENGTH, n_embd=160, n_layer=4, n_head=4, resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.2)
    )
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), "menu_cards_out"),
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        num_train_epochs=12,
        learning_rate=8e-4,
        warmup_steps=100,
        lr_scheduler_type="cosine",
        logging_steps=25,
        eval_strategy="steps",
        eval_steps=150,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Menus(12000, 1), eval_dataset=Menus(320, 2))
    trainer.train()


if __name__ == "__main__":
    main()
