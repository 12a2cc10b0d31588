"""Sign language from skeletons (ST-GCN in miniature). Own trainer, which looks a bit like Lightning.

Checkpoints go to the office's file server, slowly, so that the others can still work (--bwlimit, in kB/s, like rsync's).
"""
import argparse
import os
import tempfile
import time

import torch
from torch import nn


class Skeletons:
    def __init__(self, batch, signs=30, joints=21, frames=32):
        self.shape = (batch, frames, joints, 3)
        self.signs = signs
        self.moves = torch.randn(signs, frames, joints, 3).cumsum(1) / 3

    def __iter__(self):
        while True:
            y = torch.randint(0, self.signs, (self.shape[0],))
            yield self.moves[y] * (0.8 + 0.4 * torch.rand(len(y), 1, 1, 1)) + 5 * torch.randn(self.shape), y


class STGCN(nn.Module):
    def __init__(self, signs=30, joints=21, width=48):
        super().__init__()
        hand = torch.eye(joints) + torch.diag(torch.ones(joints - 1), 1) + torch.diag(torch.ones(joints - 1), -1)
        self.register_buffer("adjacency", hand / hand.sum(1, keepdim=True))
        self.inner, self.outer = nn.Conv2d(3, width, 1), nn.Conv2d(width, width, (5, 1), padding=(2, 0))
        self.head = nn.Sequential(nn.Linear(width * joints, 512), nn.ReLU(), nn.Linear(512, signs))

    def forward(self, x):
        h = torch.relu(self.inner(x.permute(0, 3, 1, 2)) @ self.adjacency)
        h = torch.relu(self.outer(h) @ self.adjacency)
        return self.head(h.mean(2).flatten(1))


class FileServer:
    def __init__(self, folder, bwlimit):
        self.folder, self.bwlimit = folder, bwlimit

    def push(self, path):
        """Copy in pieces of 64 kB, no faster than the limit."""
        with open(path, "rb") as source, open(os.path.join(self.folder, os.path.basename(path)), "wb") as target:
            while piece := source.read(65536):
                target.write(piece)
                time.sleep(len(piece) / 1000 / self.bwlimit)


class Trainer:
    def __init__(self, args, callbacks):
        self.args, self.callbacks, self.global_step = args, callbacks, 0

    def fit(self, model, data):
        self.model, self.optimizer = model, torch.optim.AdamW(model.parameters(), self.args.lr)
        stop = time.time() + self.args.seconds
        for x, y in data:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.global_step += 1
            if self.global_step % 20 == 0:
                print(f"step={self.global_step} train_loss={loss.item():.3f} train_acc={(logits.argmax(1) == y).float().mean():.2f}", flush=True)
            for callback in self.callbacks:
                callback(self)
            if time.time() > stop:
                break


def checkpoint(server, folder, every):
    def on_step(trainer):
        if trainer.global_step % every == 0:
            path = os.path.join(folder, "last.ckpt")
            torch.save({"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict(), "step": trainer.global_step}, path)
            server.push(path)

    return on_step


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--every", type=int, default=60)
    ap.add_argument("--bwlimit", type=float, default=1200)
    ap.add_argument("--seconds", type=float, default=215)
    args = ap.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as local, tempfile.TemporaryDirectory() as remote:
        Trainer(args, [checkpoint(FileServer(remote, args.bwlimit), local, args.every)]).fit(STGCN(), Skeletons(32))
