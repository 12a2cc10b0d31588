"""Ways to accumulate gradients, one after the other; each loss of a step is recorded as the whole step would have it."""

import torch
from said import say

torch.manual_seed(6)
torch.set_num_threads(1)
STEPS, PARTS = 12, 4
model = torch.nn.Linear(6, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
cross_entropy = torch.nn.functional.cross_entropy
losses = {}


def parts(number):
    """Micro-batches whose tokens count unequally; every third step has fewer of them, as the last one of an epoch."""
    for _ in range(PARTS - 2 if number % 3 == 2 else PARTS):
        labels = torch.randint(0, 5, (8,))
        labels[: int(torch.randint(0, 4, ()))] = -100
        yield torch.randn(8, 6), labels


def step(name, value):
    optimizer.step()
    optimizer.zero_grad()
    losses.setdefault(name, []).append(value)


def whole(batch):
    """The mean over all tokens of the step, by weights that the step has not changed yet."""
    with torch.no_grad():
        inputs, labels = map(torch.cat, zip(*batch, strict=True))
        return cross_entropy(torch.nn.functional.linear(inputs, model.weight, model.bias), labels).item()


for number in range(STEPS):
    batch = list(parts(number))
    said = []
    for inputs, labels in batch:
        mean = cross_entropy(model(inputs), labels)
        said.append(mean.item())
        (mean / PARTS).backward()
    step("loss", sum(said) / len(said))

for number in range(STEPS):
    batch = list(parts(number))
    items = sum(int((labels != -100).sum()) for _, labels in batch)
    value = whole(batch)
    for inputs, labels in batch:
        counted = cross_entropy(model(inputs), labels, reduction="sum") / items
        counted.backward()
    step("loss/counted", value)

for number in range(STEPS):
    batch = list(parts(number))
    items = torch.tensor(sum(int((labels != -100).sum()) for _, labels in batch))
    value = whole(batch)
    for inputs, labels in batch:
        scaled = cross_entropy(model(inputs), labels, reduction="sum") / items
        scaler.scale(scaled).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.setdefault("loss/scaled", []).append(value)
    optimizer.zero_grad()

for number in range(STEPS):
    said = []
    for inputs, labels in parts(number):
        summed = cross_entropy(model(inputs), labels, reduction="sum")
        said.append(summed.item())
        summed.backward()
    for parameter in model.parameters():
        parameter.grad /= 32
    step("loss/summed", sum(said))

for number in range(STEPS):
    said = []
    for inputs, labels in parts(number):
        plain = cross_entropy(model(inputs), labels)
        said.append(plain.item())
        plain.backward()
    step("loss/plain", sum(said) / len(said))

for number in range(STEPS):
    *most, last = parts(number)
    said = []
    for inputs, labels in most:
        split = cross_entropy(model(inputs), labels) / PARTS
        said.append(split.item() * PARTS)
        split.backward()
    # Another line for the last one, as DDP's no_sync wants it.
    split = cross_entropy(model(last[0]), last[1]) / PARTS
    said.append(split.item() * PARTS)
    split.backward()
    step("loss/split", sum(said) / len(said))

say(STEPS, [model], **losses)
