#!/usr/bin/env python3
# Noisy student: teacher labels the unlabelled set, a fresh student learns from both, becomes the teacher, repeat.
import copy

import torch as T
import torch.nn as nn
import torch.nn.functional as F

T.manual_seed(11)
D, K = 256, 12
mu = T.randn(K, D) * 0.32


def sample(n):
    y = T.randint(0, K, (n,))
    return mu[y] + T.randn(n, D), y


lab_x, lab_y = sample(1200)
unl_x, _ = sample(40000)
val_x, val_y = sample(2000)


class Student(nn.Module):
    def __init__(self, width=768, p=0.4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(D, width), nn.ReLU(), nn.Dropout(p), nn.Linear(width, width), nn.ReLU(), nn.Dropout(p))
        self.head = nn.Linear(width, K)

    def forward(self, x):
        return self.head(self.body(x))


def fit(model, x, y, iters, tag):
    optim = T.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    model.train()
    for it in range(iters):
        j = T.randint(0, len(x), (256,))
        noisy = x[j] + 0.1 * T.randn(256, D)
        loss = F.cross_entropy(model(noisy), y[j])
        optim.zero_grad()
        loss.backward()
        optim.step()
        if it % 6 == 0:
            print("%s iter %3d loss %.3f" % (tag, it, loss.item()), flush=True)


@T.no_grad()
def label(model, x, passes=3):
    model.eval()
    p = sum(T.cat([model(c + 0.05 * T.randn_like(c)).softmax(1) for c in x.split(2000)]) for _ in range(passes)) / passes
    conf, y = p.max(1)
    keep = conf > 0.8
    return x[keep], y[keep]


teacher = Student()
fit(teacher, lab_x, lab_y, 48, "teacher")
for gen in range(500):
    px, py = label(teacher, unl_x)
    student = Student()
    fit(student, T.cat([lab_x, px]), T.cat([lab_y, py]), 48, "gen %d (%d pseudo)" % (gen, len(px)))
    student.eval()
    with T.no_grad():
        acc = (student(val_x).argmax(1) == val_y).float().mean().item()
    print("gen %d val acc %.4f" % (gen, acc), flush=True)
    teacher = copy.deepcopy(student)
