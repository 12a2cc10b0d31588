# python style_transfer.py --size 64 --styles 40 : paints one picture after the other, LBFGS on the pixels
import argparse
import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--size", type=int, default=64)
ap.add_argument("--styles", type=int, default=1000)
ap.add_argument("--steps", type=int, default=25)
a = ap.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
vgg = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()).eval().requires_grad_(False)


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


def features(img):
    out = []
    for layer in vgg:
        img = layer(img)
        if isinstance(layer, nn.ReLU):
            out.append(img)
    return out


content = features(torch.rand(1, 3, a.size, a.size))[-1]
for n in range(a.styles):
    style = [gram(f) for f in features(torch.rand(1, 3, a.size, a.size) ** (1 + n % 5))]
    img = torch.rand(1, 3, a.size, a.size, requires_grad=True)
    opt = torch.optim.LBFGS([img], max_iter=4)
    for step in range(a.steps):
        def closure():
            opt.zero_grad()
            fs = features(img)
            loss = nn.functional.mse_loss(fs[-1], content) + 1e4 * sum(nn.functional.mse_loss(gram(f), s) for f, s in zip(fs, style))
            loss.backward()
            return loss
        loss = opt.step(closure)
        if step % 5 == 0:
            print(f"style {n} step {step} total loss: {loss.item():.5f}", flush=True)
