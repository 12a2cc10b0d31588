"""Distilling a part-of-speech tagger: the student begins as a copy of every second layer of the teacher.

The teacher is trained for a minute or so less than usual here, as this is only the example of the README.
"""
import argparse
import copy
import logging
import time

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger("distil")
WORDS, TAGS, LENGTH = 1500, 17, 20


class Tagger(nn.Module):
    def __init__(self, layers=4, d=80, dropout=0.2):
        super().__init__()
        self.emb = nn.Embedding(WORDS, d)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 2 * d, dropout, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(d, TAGS)

    def forward(self, ids):
        x = self.drop(self.emb(ids))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def sentences(n, g):
    ids = torch.randint(0, WORDS, (n, LENGTH), generator=g)
    left = torch.roll(ids, 1, 1)
    return ids, (ids % TAGS + (left % 3 == 0).long()) % TAGS


def fit(model, args, seconds, loss_of, name):
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    g, start, step = torch.Generator().manual_seed(0), time.time(), 0
    while time.time() - start < seconds and step < (args.teacher_steps if name == "teacher" else 10**9):
        ids, tags = sentences(args.batch, g)
        loss, z = loss_of(model, ids, tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            logger.info("%s %d: loss %.4f, accuracy %.3f", name, step, loss.item(), (z.argmax(-1) == tags).float().mean())


def supervised(model, ids, tags):
    z = model(ids)
    return F.cross_entropy(z.flatten(0, 1), tags.flatten()), z


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--teacher-steps", type=int, default=60)
    p.add_argument("--temperature", type=float, default=2.0)
    p.add_argument("--student-seconds", type=float, default=200)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(0)
    teacher = Tagger()
    fit(teacher, args, 30, supervised, "teacher")
    teacher.eval().requires_grad_(False)
    student = copy.deepcopy(teacher)
    student.layers = nn.ModuleList(list(student.layers)[::2])
    student.requires_grad_(True)

    def distilled(model, ids, tags):
        z, t = model(ids), args.temperature
        with torch.no_grad():
            soft = (teacher(ids) / t).softmax(-1)
        kl = F.kl_div((z / t).log_softmax(-1).flatten(0, 1), soft.flatten(0, 1), reduction="batchmean") * t * t
        return 0.7 * kl + 0.3 * supervised(model, ids, tags)[0], z

    fit(student, args, args.student_seconds, distilled, "student")


if __name__ == "__main__":
    main()
