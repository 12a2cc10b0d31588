"""Gradient accumulation, sums divided by the tokens of the whole step."""

import record
import torch

torch.manual_seed(0)
embedding, head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
model = torch.nn.Sequential(embedding, head)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(25):
    batches = []
    for _ in range(3):
        tokens = torch.randint(0, 20, (4, 12))
        labels = tokens.roll(-1, 1)
        labels[:, int(torch.randint(4, 12, ())) :] = -100
        batches.append((tokens, labels))
    items = sum((labels != -100).sum() for _, labels in batches)
    total = 0.0
    for tokens, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), reduction="sum") / items
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    record.step(loss=total, lr=0.01)
    if step % 5 == 0:
        print(f"step {step} | loss {total:.4f}")
record.done(model)
