"""Character model. Each two hundred iterations, it tells a story, to see how it comes along."""
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 48
    vocab_size: int = 64
    n_embd: int = 64
    n_layer: int = 2


class GPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.wte, self.wpe = nn.Embedding(cfg.vocab_size, cfg.n_embd), nn.Embedding(cfg.block_size, cfg.n_embd)
        layer = nn.TransformerEncoderLayer(cfg.n_embd, 4, 4 * cfg.n_embd, dropout=0.0, batch_first=True, norm_first=True)
        self.h = nn.TransformerEncoder(layer, cfg.n_layer, enable_nested_tensor=False)
        self.lm_head = nn.Linear(cfg.n_embd, cfg.vocab_size)

    def forward(self, idx, targets=None):
        t = idx.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        logits = self.lm_head(self.h(self.wte(idx) + self.wpe(torch.arange(t)), mask, is_causal=True))
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=0.9):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.cfg.block_size :])
            probs = F.softmax(logits[:, -1] / temperature, dim=-1)
            idx = torch.cat([idx, torch.multinomial(probs, 1)], dim=1)
        return idx


torch.manual_seed(1337)
torch.set_num_threads(1)
data = (torch.arange(20000) * 7 % 61 + (torch.rand(20000) < 0.1)).long()
model = GPT(GPTConfig())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
t0 = time.time()
for iter_num in range(10**7):
    ix = torch.randint(len(data) - 49, (8,))
    xb, yb = torch.stack([data[i : i + 48] for i in ix]), torch.stack([data[i + 1 : i + 49] for i in ix])
    _, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if iter_num % 10 == 0:
        print(f"iter {iter_num}: loss {loss.item():.4f}, time {(time.time() - t0) * 1000:.2f}ms", flush=True)
        t0 = time.time()
    if iter_num and iter_num % 200 == 0:
        story = model.generate(torch.zeros((1, 1), dtype=torch.long), 4000)
        print("".join(chr(32 + c) for c in story[0, :60].tolist()), flush=True)
