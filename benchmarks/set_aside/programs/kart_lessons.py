#!/usr/bin/env python3
"""DAgger for a toy kart: the student drives, the teacher says what he would have done. After Ross et al. 2011.

prints csv: iteration,samples,loss,agreement,metres,seconds
"""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEER = np.linspace(-1.0, 1.0, 9)
LENGTH = 300
CLONING = 25  # iterations on the teacher's own laps, before the student drives


class Track:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        k = self.rng.randn(LENGTH + 24)
        k = np.convolve(k, np.hanning(21) / 4.0, mode="same")
        self.curv = np.clip(k, -1.0, 1.0) * 0.35
        self.off, self.head, self.t = self.rng.uniform(-0.05, 0.05), 0.0, 0
        return self.camera()

    def camera(self):
        """12 pixels: where the middle line is, 2 metres apart, and a bit of noise"""
        ahead = self.curv[self.t : self.t + 24 : 2]
        line = -self.off - self.head * np.arange(12) * 0.5 + np.cumsum(np.cumsum(ahead)) * 0.1
        return (line + 0.02 * self.rng.randn(12)).astype(np.float32)

    def teacher(self):
        want = 1.6 * self.curv[self.t + 1] - 1.5 * self.off - 1.8 * self.head
        return int(np.abs(STEER - want).argmin())

    def step(self, a):
        self.head += 0.35 * (0.7 * STEER[a] - self.curv[self.t]) + 0.03 * self.rng.randn()
        self.off += 0.35 * self.head
        self.t += 1
        return self.camera(), abs(self.off) > 0.3 or self.t >= LENGTH


def drive(track, student, beta, rng):
    obs, done, seen, labels, agree = track.reset(), False, [], [], 0
    while not done:
        label = track.teacher()
        seen.append(obs)
        labels.append(label)
        a = label
        if rng.rand() > beta:
            with torch.no_grad():
                a = int(student(torch.from_numpy(obs)).argmax())
        agree += a == label
        obs, done = track.step(a)
    return seen, labels, agree / len(seen), track.t


def main():
    rng = np.random.RandomState(8)
    torch.manual_seed(8)
    track = Track(rng)
    student = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 9))
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    x, y = torch.empty(0, 12), torch.empty(0, dtype=torch.long)
    for _ in range(2):
        seen, labels, _, _ = drive(track, student, 1.0, rng)
        x, y = torch.cat([x, torch.from_numpy(np.stack(seen))]), torch.cat([y, torch.tensor(labels)])
    print("iteration,samples,loss,agreement,metres,seconds", flush=True)
    for it in range(700):
        tic = time.time()
        total, samples = 0.0, len(x)
        for _ in range(500):
            idx = torch.randint(0, len(x), (64,))
            loss = F.cross_entropy(student(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        laps = [drive(track, student, 0.0, rng) for _ in range(4)]
        if it >= CLONING:
            for seen, labels, _, _ in laps:
                x, y = torch.cat([x, torch.from_numpy(np.stack(seen))]), torch.cat([y, torch.tensor(labels)])
        print(
            "%d,%d,%.4f,%.3f,%.1f,%.2f"
            % (it, samples, total / 500, np.mean([l[2] for l in laps]), np.mean([l[3] for l in laps]), time.time() - tic),
            flush=True,
        )


if __name__ == "__main__":
    main()
