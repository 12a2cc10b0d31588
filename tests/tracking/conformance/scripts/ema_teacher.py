"""Self-supervised: a student and a teacher that follows as a moving average."""

import copy

import record
import torch

torch.manual_seed(0)
student = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
teacher = copy.deepcopy(student).requires_grad_(False)
predictor = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD([*student.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
for _step in range(40):
    x = torch.randn(16, 8)
    first, second = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.no_grad():
        target = teacher(second)
    loss = 2 - 2 * torch.nn.functional.cosine_similarity(predictor(student(first)), target).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
    record.step(loss=loss.item(), lr=0.05)
record.done(student, teacher, predictor)
print("done")
