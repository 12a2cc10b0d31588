"""Nuclei detection, centre + size per cell. AP on the validation slides after each epoch."""
import time

import torch
from torch import nn
from torch.nn import functional as F

GRID, SIZE = 24, 96


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, 1, 1), nn.ReLU(), nn.Conv2d(48, 5, 1)
        )

    def forward(self, x):
        return self.net(x)


def slides(n, g):
    obj = (torch.rand(n, GRID, GRID, generator=g) < 0.08).float()
    x = torch.randn(n, 3, SIZE, SIZE, generator=g) * 0.8
    x[:, 1] += 1.2 * F.interpolate(obj[:, None], size=SIZE)[:, 0]
    return x, obj


def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    inter = max(w, 0) * max(h, 0)
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def nms(boxes, thr=0.4):
    boxes = sorted(boxes, key=lambda b: -b[4])
    keep = []
    while boxes:
        best = boxes.pop(0)
        keep.append(best)
        boxes = [b for b in boxes if iou(best, b) < thr]
    return keep


def boxes_of(out, candidates=300):
    found = []
    score = out[0].sigmoid().flatten()
    for k in score.topk(candidates).indices.tolist():
        i, j = divmod(k, GRID)
        w, h = 4 + abs(out[3, i, j].item()), 4 + abs(out[4, i, j].item())
        cx, cy = 4 * j + 2 + out[1, i, j].item(), 4 * i + 2 + out[2, i, j].item()
        found.append((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, score[k].item()))
    return found


@torch.no_grad()
def validate(model, x, obj):
    model.eval()
    hits = total = 0
    for k in range(len(x)):
        kept = nms(boxes_of(model(x[k : k + 1])[0]))
        for i, j in obj[k].nonzero().tolist():
            truth = (4 * j, 4 * i, 4 * j + 4, 4 * i + 4)
            hits += any(iou(truth, b) > 0.5 and b[4] > 0.5 for b in kept)
            total += 1
    return hits / total


def main():
    g = torch.Generator().manual_seed(0)
    train, val = slides(1600, g), slides(100, g)
    model = Head()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(200):
        t0 = time.time()
        model.train()
        for it, idx in enumerate(torch.randperm(1600).split(8)):
            out = model(train[0][idx])
            obj = train[1][idx]
            loss = F.binary_cross_entropy_with_logits(out[:, 0], obj) + 0.1 * (out[:, 1:] * obj[:, None]).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if it % 40 == 0:
                print(f"epoch {epoch} [{it}/200] loss {loss.item():.4f}", flush=True)
        t1 = time.time()
        recall = validate(model, *val)
        print(f"epoch {epoch}: recall {recall:.3f} (train {t1 - t0:.1f}s, val {time.time() - t1:.1f}s)", flush=True)


main()
