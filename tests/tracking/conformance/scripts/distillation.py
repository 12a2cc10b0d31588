"""Knowledge distillation: the teacher is trained first, then the student."""

import record
import torch

torch.manual_seed(0)
x = torch.randn(128, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
teacher = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
student = torch.nn.Linear(8, 2)


def train_teacher():
    optimizer = torch.optim.Adam(teacher.parameters(), lr=0.02)
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(teacher(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.02)


def train_student():
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(20):
        with torch.no_grad():
            soft = (teacher(x) / 2).softmax(1)
        logits = student(x)
        hard = torch.nn.functional.cross_entropy(logits, y)
        loss = 0.5 * hard + 0.5 * torch.nn.functional.kl_div((logits / 2).log_softmax(1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.step(loss=loss.item(), lr=0.1)


train_teacher()
train_student()
record.done(teacher, student)
print("done")
