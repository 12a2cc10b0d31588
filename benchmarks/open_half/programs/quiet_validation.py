"""Tagger for chemical names (BiLSTM). Validates every 15 steps, because I want the best checkpoint."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)
VOCAB, TAGS = 900, 9


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 64)
        self.rnn = nn.LSTM(64, 96, batch_first=True, bidirectional=True)
        self.out = nn.Linear(192, TAGS)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def sentences(n):
    x = torch.randint(0, VOCAB, (n, 40))
    return x, (x * 7 + x.roll(1, 1)) % TAGS


model, xent = Tagger(), nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), 2e-3)
dev_x, dev_y = sentences(9000)
step = 0
while True:
    for _ in range(15):
        x, y = sentences(32)
        loss = xent(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    good = 0
    for i in range(0, len(dev_x), 4):  # batch 4, or the old card runs out of memory
        good += (model(dev_x[i:i + 4]).argmax(-1) == dev_y[i:i + 4]).sum().item()
    print(f"step {step} dev_acc {good / dev_y.numel():.4f}", flush=True)
