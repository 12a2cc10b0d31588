"""GRPO on a toy: pay an amount with coins. No reference model on the first pages of the paper, so none here (beta = 0)."""
import argparse
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

COINS = torch.tensor([0, 1, 2, 5, 10, 20, 50])  # 0 ends the answer
STOP, START, LENGTH = 0, 7, 8


class Policy(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.amount = nn.Embedding(100, hidden)
        self.token = nn.Embedding(8, hidden)
        self.gru = nn.GRU(hidden, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 7)

    def forward(self, amounts, tokens):
        h = self.amount(amounts)[None].repeat(2, 1, 1)
        y, _ = self.gru(self.token(tokens), h)
        return self.out(y)

    @torch.no_grad()
    def generate(self, amounts):
        h = self.amount(amounts)[None].repeat(2, 1, 1)
        tok = torch.full((len(amounts), 1), START)
        done = torch.zeros(len(amounts), dtype=torch.bool)
        tokens, logps, mask = [], [], []
        for _ in range(LENGTH):
            y, h = self.gru(self.token(tok), h)
            logp = self.out(y[:, 0]).log_softmax(-1)
            pick = torch.multinomial(logp.exp(), 1)
            tokens.append(pick)
            logps.append(logp.gather(1, pick))
            mask.append(~done[:, None])
            done = done | (pick[:, 0] == STOP)
            tok = pick
        return torch.cat(tokens, 1), torch.cat(logps, 1), torch.cat(mask, 1).float()


def reward(amounts, tokens, mask):
    paid = (COINS[tokens] * mask.long()).sum(1)
    exact = (paid == amounts).float()
    near = torch.exp(-(paid - amounts).abs().float() / 10)
    return exact + 0.5 * near - 0.02 * mask.sum(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--prompts", type=int, default=32)
    p.add_argument("--group", type=int, default=16)
    p.add_argument("--inner", type=int, default=2)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--entropy", type=float, default=0.01)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--updates", type=int, default=20000)
    a = p.parse_args()
    torch.manual_seed(0)
    policy = Policy()
    old = copy.deepcopy(policy)
    opt = torch.optim.AdamW(policy.parameters(), lr=a.lr)
    print(f"GRPO, {sum(q.numel() for q in policy.parameters()) / 1e6:.2f} M parameters, {vars(a)}", flush=True)
    began = time.time()
    stats = []
    for update in range(1, a.updates + 1):
        old.load_state_dict(policy.state_dict())
        amounts = torch.randint(1, 100, (a.prompts,)).repeat_interleave(a.group)
        tokens, old_logp, mask = old.generate(amounts)
        r = reward(amounts, tokens, mask)
        groups = r.view(a.prompts, a.group)
        adv = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        shifted = torch.cat([torch.full((len(tokens), 1), START), tokens[:, :-1]], 1)
        for _ in range(a.inner):
            logits = policy(amounts, shifted)
            logp = logits.log_softmax(-1).gather(2, tokens[..., None])[..., 0]
            ratio = (logp - old_logp).exp()
            per_token = -torch.min(ratio * adv, ratio.clamp(1 - a.clip, 1 + a.clip) * adv)
            entropy = -(F.softmax(logits, -1) * F.log_softmax(logits, -1)).sum(-1)
            per_token = per_token - a.entropy * entropy
            loss = ((per_token * mask).sum(1) / mask.sum(1)).mean()
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            opt.step()
        stats.append((loss.item(), norm.item(), r.mean().item(), r.std().item(), mask.sum(1).mean().item(), entropy.mean().item()))
        if update % 10 == 0:
            s = torch.tensor(stats).mean(0).tolist()
            stats.clear()
            row = dict(zip(["loss", "grad_norm", "reward", "reward_std", "completion_length", "entropy"], s, strict=True))
            print({k: round(v, 4) for k, v in row.items()} | {"update": update, "s": round(time.time() - began)}, flush=True)


main()
