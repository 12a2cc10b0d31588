"""Language model of village heralds in two stages: first the embeddings and the head, then everything."""
import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {"vocab": 800, "context": 48, "width": 160, "layers": 3, "heads": 4, "batch": 16,
            "stage1_steps": 160, "stage2_steps": 4000, "lr1": 2e-3, "lr2": 5e-4, "checkpoint": "herald_lm.pt"}


def make_corpus(vocab, tokens=200_000, seed=8):
    g = torch.Generator().manual_seed(seed)
    follow = torch.randint(0, vocab, (vocab, 4), generator=g)
    picks = torch.randint(0, 4, (tokens,), generator=g)
    jump = torch.rand(tokens, generator=g) < 0.02
    anywhere = torch.randint(0, vocab, (tokens,), generator=g)
    text, word = torch.empty(tokens, dtype=torch.long), 0
    for i in range(tokens):
        text[i] = word
        word = int(anywhere[i]) if jump[i] else int(follow[word, picks[i]])
    return text


class HeraldLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.token = nn.Embedding(cfg["vocab"], w)
        self.position = nn.Parameter(torch.zeros(cfg["context"], w))
        layer = nn.TransformerEncoderLayer(w, cfg["heads"], 4 * w, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, cfg["layers"], enable_nested_tensor=False)
        self.norm = nn.LayerNorm(w)
        self.head = nn.Linear(w, cfg["vocab"])

    def forward(self, x):
        n = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=x.device)
        h = self.blocks(self.token(x) + self.position[:n], mask=mask, is_causal=True)
        return self.head(self.norm(h))


def get_batch(text, cfg, device):
    starts = torch.randint(0, len(text) - cfg["context"] - 1, (cfg["batch"],))
    rows = torch.stack([text[s:s + cfg["context"] + 1] for s in starts]).to(device)
    return rows[:, :-1], rows[:, 1:]


def build_optimizer(model, lr, decay=0.1):
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() >= 2]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": decay},
                              {"params": others, "weight_decay": 0.0}], lr=lr)


def run_stage(name, model, optimizer, text, cfg, steps, device):
    model.train()
    began, total = time.time(), 0.0
    for step in range(1, steps + 1):
        x, y = get_batch(text, cfg, device)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % 20 == 0:
            print(f"{name} step {step}/{steps} loss {total / 20:.3f} ppl {math.exp(total / 20):.1f} "
                  f"{(time.time() - began) / step * 1000:.0f} ms/step")
            total = 0.0


def save(path, model, optimizer, stage):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "stage": stage}, path)
    print(f"saved {path} ({os.path.getsize(path) / 1e6:.1f} MB)")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", default="{}", help="JSON with settings to replace")
    args = parser.parse_args()
    cfg = {**DEFAULTS, **json.loads(args.set)}
    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = make_corpus(cfg["vocab"])
    print(f"{len(text)} tokens, device {device}")

    model = HeraldLM(cfg).to(device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith(("token", "head", "norm", "position"))
    optimizer = build_optimizer(model, cfg["lr1"])
    run_stage("stage 1", model, optimizer, text, cfg, cfg["stage1_steps"], device)
    save(cfg["checkpoint"], model, optimizer, 1)

    checkpoint = torch.load(cfg["checkpoint"], map_location=device)
    model = HeraldLM(cfg).to(device)
    model.load_state_dict(checkpoint["model"])
    optimizer = build_optimizer(model, cfg["lr2"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    print("stage 2: all", sum(p.numel() for p in model.parameters()), "parameters are trained")
    run_stage("stage 2", model, optimizer, text, cfg, cfg["stage2_steps"], device)
    save(cfg["checkpoint"], model, optimizer, 2)


if __name__ == "__main__":
    main()
