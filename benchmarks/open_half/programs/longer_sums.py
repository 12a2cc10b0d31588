"""Addition with a GRU, two digits first, then three, ... A stage ends when 90 % of the answers are right."""
import time

import torch
from torch import nn

DIGITS = "0123456789+=."


class Adder(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.emb = nn.Embedding(len(DIGITS), 32)
        self.rnn = nn.GRU(32, hidden, batch_first=True)
        self.out = nn.Linear(hidden, len(DIGITS))

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def problems(n, digits):
    """Least significant digit first: 12+30 is 21+03=24."""
    a, b = torch.randint(0, 10**digits, (2, n)).tolist()
    rows = [f"{str(p).zfill(digits)[::-1]}+{str(q).zfill(digits)[::-1]}={str(p + q).zfill(digits + 1)[::-1]}." for p, q in zip(a, b, strict=True)]
    return torch.tensor([[DIGITS.index(c) for c in row] for row in rows])


torch.manual_seed(0)
model = Adder()
opt = torch.optim.Adam(model.parameters(), 3e-3)
digits, step, acc = 1, 0, 0.0
t = time.time()
print("stage 1: sums of 1 digit", flush=True)
while True:
    rows = problems(128, digits)
    x, y = rows[:, :-1], rows[:, 1:]
    keep = slice(2 * digits + 1, None)
    logits = model(x)[:, keep]
    loss = nn.functional.cross_entropy(logits.reshape(-1, len(DIGITS)), y[:, keep].reshape(-1))
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    step += 1
    acc = 0.95 * acc + 0.05 * (logits.argmax(-1) == y[:, keep]).float().mean().item()
    if step % 25 == 0:
        print(f"step {step} stage {digits} loss {loss.item():.4f} acc {acc:.3f} {time.time() - t:.0f}s", flush=True)
    if acc > 0.9 and digits < 8:
        digits, acc = digits + 1, 0.0
        print(f"stage {digits}: sums of {digits} digits", flush=True)
