"""Clause continuation with adapters: a frozen LM, low-rank updates of the attention only. Transformers' Trainer."""
import random
import tempfile

print("contract clauses, rank 8", flush=True)

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

CTX, VOCAB = 64, 400


class LoRA(nn.Module):
    def __init__(self, base, r=8, alpha=32):
        super().__init__()
        self.base, self.scale = base, alpha / r
        self.a = nn.Parameter(torch.randn(base.weight.shape[0], r) * 0.02)
        self.b = nn.Parameter(torch.zeros(r, base.weight.shape[1]))

    def forward(self, x):
        return self.base(x) + (x @ self.a @ self.b) * self.scale


class Clauses(torch.utils.data.Dataset):
    def __init__(self, n, style):
        rnd = random.Random(style)
        follow = [[rnd.randrange(VOCAB) for _ in range(3)] for _ in range(VOCAB)]
        if style:  # the new contracts differ from the old ones in a third of the words
            old = random.Random(0)
            base = [[old.randrange(VOCAB) for _ in range(3)] for _ in range(VOCAB)]
            follow = [f if i % 3 == 0 else b for i, (f, b) in enumerate(zip(follow, base))]
        self.rows = []
        for _ in range(n):
            s = [rnd.randrange(VOCAB)]
            while len(s) < CTX:
                s.append(rnd.choices(follow[s[-1]], (6, 2, 1))[0])
            self.rows.append(torch.tensor(s))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def arguments(out, lr, steps):
    return TrainingArguments(output_dir=out, max_steps=steps, per_device_train_batch_size=8, gradient_accumulation_steps=2,
                             learning_rate=lr, lr_scheduler_type="cosine", warmup_steps=20, logging_steps=10, save_strategy="no",
                             report_to="none", disable_tqdm=True)


def main():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=CTX, n_embd=128, n_layer=3, n_head=4,
                                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0))
    with tempfile.TemporaryDirectory() as out:
        print("stage 1: general contracts", flush=True)
        Trainer(model, arguments(out, 2e-3, 100), train_dataset=Clauses(6000, 0)).train()
        for p in model.parameters():
            p.requires_grad_(False)
        for block in model.transformer.h:
            block.attn.c_attn, block.attn.c_proj = LoRA(block.attn.c_attn), LoRA(block.attn.c_proj)
            block.mlp.c_fc, block.mlp.c_proj = LoRA(block.mlp.c_fc), LoRA(block.mlp.c_proj)
        n = sum(p.numel() for p in model.parameters() if p.requires_grad)
        print(f"stage 2: adapters, {n} of {sum(p.numel() for p in model.parameters())} parameters train", flush=True)
        Trainer(model, arguments(out, 3e-3, 6000), train_dataset=Clauses(6000, 1)).train()


if __name__ == "__main__":
    main()
