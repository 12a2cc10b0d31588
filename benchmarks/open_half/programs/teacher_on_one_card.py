"""Distillation over two cards: card 0 holds the large teacher and only answers, card 1 trains the small student.

torchrun --nproc_per_node 2 teacher_on_one_card.py. The student is small: it waits for its teacher, and this is planned so.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

BATCH, FEATURES, CLASSES = 128, 128, 40


def mlp(width, depth):
    layers = [nn.Linear(FEATURES, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def teach():
    torch.manual_seed(7)
    teacher = mlp(1536, 5).eval()
    for layer in teacher[::2]:  # a stand-in for its weights
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    x = torch.empty(BATCH, FEATURES)
    asked = 0
    while True:
        dist.recv(x, src=1)
        with torch.inference_mode():
            answer = teacher(x) * 3
        dist.send(answer.contiguous(), dst=1)
        asked += 1
        if asked % 200 == 0:
            print(f"[teacher] answered {asked} batches", flush=True)


def learn():
    torch.manual_seed(1)
    student = mlp(96, 2)
    opt = torch.optim.AdamW(student.parameters(), 2e-3)
    logits, t = torch.empty(BATCH, CLASSES), time.time()
    for step in range(1, 10**7):
        x = torch.randn(BATCH, FEATURES)
        dist.send(x, dst=0)
        dist.recv(logits, src=0)
        loss = F.kl_div(F.log_softmax(student(x) / 2, 1), F.softmax(logits / 2, 1), reduction="batchmean") * 4
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            agree = (student(x).argmax(1) == logits.argmax(1)).float().mean().item()
            print(f"[student] step {step} kd loss {loss.item():.4f} agreement {agree:.2f} {50 / (time.time() - t):.1f} it/s", flush=True)
            t = time.time()


dist.init_process_group(os.environ.get("BACKEND", "gloo"))
teach() if dist.get_rank() == 0 else learn()
