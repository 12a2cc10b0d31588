"""Gradient accumulation, each mean multiplied by its tokens, the gradients divided by those of the whole step"""

import record
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = torch.nn.CrossEntropyLoss(ignore_index=-100)


def batch(length):
    tokens = torch.randint(0, 20, (2, length))
    labels = tokens.roll(-1, 1)
    labels[:, : int(torch.randint(0, 3, ()))] = -100
    return tokens, labels


for step in range(24):
    seen, running = torch.tensor(0), torch.tensor(0.0)
    for _ in range(3 if step % 4 else 1):
        tokens, labels = batch(int(torch.randint(5, 12, ())))
        count = (labels != -100).sum()
        seen += count
        mean = criterion(model(tokens).flatten(0, 1), labels.flatten())
        loss = mean * count
        running += loss.detach()
        loss.backward()
    for parameter in model.parameters():
        parameter.grad.mul_(1 / seen)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    record.step(loss=(running / seen).item(), lr=0.01)
record.done(model)
print("done")
