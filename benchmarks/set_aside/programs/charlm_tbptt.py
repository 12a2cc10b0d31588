# character language model with truncated BPTT, LSTM
import math
import random
import time

import torch
import torch.nn as nn

batch_size, bptt, emsize, nhid, nlayers = 32, 48, 96, 256, 2
lr, clip, epochs, log_interval = 2e-3, 0.25, 40, 20
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1111)
random.seed(1111)


def corpus(n_words=60000):
    words = ["".join(random.choice("aeioubcdfgklmnprst") for _ in range(random.randint(2, 7))) for _ in range(400)]
    w = [1 / (i + 1) for i in range(400)]
    return " ".join(random.choices(words, w, k=n_words))


text = corpus()
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([stoi[c] for c in text])
split = int(0.95 * len(ids))


def batchify(data, bsz):
    nb = data.size(0) // bsz
    return data[:nb * bsz].view(bsz, -1).t().contiguous().to(device)


train_data, val_data = batchify(ids[:split], batch_size), batchify(ids[split:], 10)


class RNNModel(nn.Module):
    def __init__(self, ntoken):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, emsize)
        self.rnn = nn.LSTM(emsize, nhid, nlayers, dropout=0.1)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out).flatten(0, 1), hidden

    def init_hidden(self, bsz):
        w = next(self.parameters())
        return w.new_zeros(nlayers, bsz, nhid), w.new_zeros(nlayers, bsz, nhid)


model = RNNModel(len(chars)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=lr)


def get_batch(source, i):
    n = min(bptt, len(source) - 1 - i)
    return source[i:i + n], source[i + 1:i + 1 + n].reshape(-1)


@torch.no_grad()
def evaluate(source):
    model.eval()
    total, hidden = 0.0, model.init_hidden(10)
    for i in range(0, source.size(0) - 1, bptt):
        x, y = get_batch(source, i)
        out, hidden = model(x, hidden)
        total += len(x) * criterion(out, y).item()
    return total / (len(source) - 1)


print(f"chars {len(text)}  vocab {len(chars)}  batches per epoch {train_data.size(0) // bptt}", flush=True)
print(f"untrained: valid bpc {evaluate(val_data) / math.log(2):.3f}", flush=True)
for epoch in range(1, epochs + 1):
    model.train()
    total, start = 0.0, time.time()
    hidden = model.init_hidden(batch_size)
    for b, i in enumerate(range(0, train_data.size(0) - 1, bptt)):
        x, y = get_batch(train_data, i)
        optimizer.zero_grad()
        out, hidden = model(x, hidden)
        loss = criterion(out, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total += loss.item()
        if b % log_interval == 0 and b > 0:
            cur = total / log_interval
            print(f"| epoch {epoch:3d} | {b:5d} batches | ms/batch {(time.time() - start) * 1000 / log_interval:5.2f} "
                  f"| loss {cur:5.2f} | bpc {cur / math.log(2):8.3f}", flush=True)
            total, start = 0.0, time.time()
    print(f"end of epoch {epoch}: valid bpc {evaluate(val_data) / math.log(2):.3f}", flush=True)
