"""Wake sound on the doorbell's microcontroller: float first, then with quantised weights (QAT), as the chip has 8 bit."""
import logging
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

logging.basicConfig(format="[%(asctime)s] %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
log = logging.getLogger(__name__)

FLOAT_EPOCHS, QUANT_EPOCHS, FREEZE_AFTER = 25, 400, 8


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, bits):
        top = 2 ** (bits - 1) - 1
        ctx.save_for_backward((x / scale).abs() <= top)
        return (x / scale).round().clamp(-top, top) * scale

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None


class QConv(nn.Conv1d):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.quant, self.observe = False, True
        self.register_buffer("range", torch.tensor(1.0))

    def forward(self, x):
        if not self.quant:
            return super().forward(x)
        if self.observe and self.training:
            self.range.lerp_(x.detach().abs().max(), 0.1)
        w = Quantise.apply(self.weight, self.weight.detach().abs().max() / 7, 4)
        x = Quantise.apply(x, self.range / 127, 8)
        return F.conv1d(x, w, self.bias, self.stride, self.padding)


class DoorNet(nn.Module):
    def __init__(self, mels=32, w=64, classes=8):
        super().__init__()
        self.c1, self.b1 = QConv(mels, w, 5, padding=2), nn.BatchNorm1d(w)
        self.c2, self.b2 = QConv(w, w, 5, stride=2, padding=2), nn.BatchNorm1d(w)
        self.c3, self.b3 = QConv(w, w * 2, 5, stride=2, padding=2), nn.BatchNorm1d(w * 2)
        self.fc = nn.Linear(w * 2, classes)

    def forward(self, x):
        x = F.relu6(self.b1(self.c1(x)))
        x = F.relu6(self.b2(self.c2(x)))
        x = F.relu6(self.b3(self.c3(x)))
        return self.fc(F.dropout(x.mean(-1), 0.1, self.training))


def sounds(n, seed, mels=32, frames=64, classes=8):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(classes, mels, 16, generator=torch.Generator().manual_seed(5))
    y = torch.randint(0, classes, (n,), generator=g)
    x = torch.randn(n, mels, frames, generator=g)
    start = torch.randint(0, frames - 16, (n,), generator=g)
    for i in range(n):
        x[i, :, start[i] : start[i] + 16] += 0.3 * proto[y[i]]
    return x, y


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (net(x).argmax(1) == y).float().mean().item()


def set_mode(net, frozen):
    net.train()
    if frozen:
        # the statistics are folded into the weights on the chip: they must not move any more
        for m in net.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.eval()


def main():
    torch.manual_seed(3)
    x, y = sounds(6400, 0)
    xt, yt = sounds(800, 1)
    net = DoorNet()
    opt = torch.optim.AdamW(net.parameters(), 1e-4, weight_decay=1e-3)
    log.info("%d sounds, %d parameters", len(x), sum(p.numel() for p in net.parameters()))
    for epoch in range(FLOAT_EPOCHS + QUANT_EPOCHS):
        if epoch == FLOAT_EPOCHS:
            log.info("quantising: 4 bit weights, 8 bit activations")
            for m in net.modules():
                if isinstance(m, QConv):
                    m.quant = True
            opt.param_groups[0]["lr"] = 4e-5
        frozen = epoch >= FLOAT_EPOCHS + FREEZE_AFTER
        if epoch == FLOAT_EPOCHS + FREEZE_AFTER:
            log.info("ranges and batch statistics are fixed from here on")
            for m in net.modules():
                if isinstance(m, QConv):
                    m.observe = False
        set_mode(net, frozen)
        t0, total, n = time.time(), 0.0, 0
        for k, idx in enumerate(torch.randperm(len(x)).split(32)):
            xb = x[idx].roll(int(torch.randint(-8, 9, (1,))), -1) + 0.3 * torch.randn(len(idx), 32, 64)
            loss = F.cross_entropy(net(xb), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, n = total + loss.item(), n + 1
            if k % 50 == 0:
                log.info("epoch %d step %d loss %.4f", epoch, k, loss.item())
        log.info("epoch %d train loss %.4f test acc %.4f (%.1f s)", epoch, total / n, accuracy(net, xt, yt), time.time() - t0)


if __name__ == "__main__":
    main()
