"""Routing support tickets of a computing centre. After each epoch, some tickets that went to the wrong desk are shown."""
import logging
import random
import time

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(asctime)s %(message)s")
log = logging.getLogger("tickets")

DESKS = {
    "gpu": ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "loss is nan after step 1200", "NCCL WARN Timeout waiting for rank 3", "Xid 79: GPU has fallen off the bus", "nvidia-smi shows ERR! for fan"],
    "storage": ["No space left on device", "Killed (exit code 137) while copying", "Input/output error on /scratch", "quota exceeded, checkpoint is corrupt", "Bus error (core dumped) in DataLoader"],
    "accounts": ["Permission denied (publickey)", "my password does not work: authentication failure", "Traceback (most recent call last): KeyError: 'HOME'", "cannot join group, error 13", "token expired"],
    "queue": ["DUE TO TIME LIMIT, job cancelled", "slurmstepd: error: Detected 1 oom-kill event", "job hangs in state PD", "Segmentation fault in prolog", "exit code 1: ChildFailedError"],
}
NAMES = list(DESKS)
POLITE = "hello please help since yesterday my job on node says and then nothing happens thank you best regards it worked last week".split()


def ticket(rng):
    desk = rng.randrange(len(NAMES))
    about = desk if rng.random() > 0.12 else rng.randrange(len(NAMES))
    text = rng.choice(DESKS[NAMES[about]])
    return f"{' '.join(rng.choices(POLITE, k=rng.randint(2, 9)))}: {text} {' '.join(rng.choices(POLITE, k=rng.randint(0, 5)))}", desk


def encode(texts, length=96):
    return torch.tensor([[ord(c) % 128 for c in t[:length].ljust(length)] for t in texts])


class CharCNN(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Embedding(128, 24)
        self.conv = nn.Sequential(nn.Conv1d(24, d, 5, padding=2), nn.ReLU(), nn.MaxPool1d(3), nn.Conv1d(d, d, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.out = nn.Linear(d, len(NAMES))

    def forward(self, x):
        return self.out(self.conv(self.emb(x).transpose(1, 2)))


def main():
    rng = random.Random(2)
    torch.manual_seed(2)
    net = CharCNN()
    opt = torch.optim.AdamW(net.parameters(), 5e-4)
    start, epoch = time.time(), 0
    while time.time() - start < 215:
        for i in range(60):
            texts, desks = zip(*[ticket(rng) for _ in range(32)])
            loss = nn.functional.cross_entropy(net(encode(texts)), torch.tensor(desks))
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 20 == 19:
                log.info("epoch %d [%d/60] loss: %.4f", epoch, i + 1, loss.item())
        texts, desks = zip(*[ticket(rng) for _ in range(200)])
        with torch.no_grad():
            guess = net(encode(texts)).argmax(1).tolist()
        wrong = [(t, d, g) for t, d, g in zip(texts, desks, guess) if d != g]
        log.info("epoch %d: accuracy %.3f; for example:", epoch, 1 - len(wrong) / 200)
        for text, desk, got in wrong[:4]:
            log.warning("  %s (not %s): %s", NAMES[got], NAMES[desk], text)
        epoch += 1


if __name__ == "__main__":
    main()
