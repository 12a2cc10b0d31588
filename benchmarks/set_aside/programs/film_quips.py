# Sentiment of one-line film reviews. LSTM, own vocabulary.
import random
from collections import Counter

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

random.seed(0)
torch.manual_seed(0)

GOOD = "wonderful moving funny brilliant tender warm gripping clever charming fresh".split()
BAD = "boring flat clumsy endless shallow noisy tired cold predictable dull".split()
REST = "the film a plot with and of its actors scenes music story in an hour dialogue ending was felt very rather quite".split()

N_TRAIN = 16017
BATCH_SIZE = 32
EMB, HIDDEN, LAYERS = 64, 128, 2
LENGTH = 40


def write_review():
    label = random.randint(0, 1)
    words = random.choices(REST, k=random.randint(18, LENGTH - 6))
    for _ in range(random.randint(1, 5)):
        pool = (GOOD if label else BAD) if random.random() < 0.85 else (BAD if label else GOOD)
        words.insert(random.randrange(len(words)), random.choice(pool))
    return words, label


class Reviews(Dataset):
    def __init__(self, n):
        self.rows = [write_review() for _ in range(n)]
        counts = Counter(w for words, _ in self.rows for w in words)
        self.stoi = {w: i + 1 for i, (w, _) in enumerate(counts.most_common())}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words, label = self.rows[i]
        ids = [self.stoi[w] for w in words][:LENGTH]
        return torch.tensor([0] * (LENGTH - len(ids)) + ids), torch.tensor(float(label))


class SentimentLSTM(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, EMB, padding_idx=0)
        self.lstm = nn.LSTM(EMB, HIDDEN, LAYERS, batch_first=True, dropout=0.3)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(HIDDEN, 1)

    def forward(self, x, hidden):
        out, hidden = self.lstm(self.embedding(x), hidden)
        return self.fc(self.dropout(out[:, -1])).squeeze(1), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (
            weight.new_zeros(LAYERS, batch_size, HIDDEN),
            weight.new_zeros(LAYERS, batch_size, HIDDEN),
        )


dataset = Reviews(N_TRAIN)
train_loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
net = SentimentLSTM(len(dataset.stoi) + 1)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
print(net)

epochs = 40
counter = 0
net.train()
for e in range(epochs):
    h = net.init_hidden(BATCH_SIZE)
    for inputs, labels in train_loader:
        counter += 1
        h = tuple(each.data for each in h)
        net.zero_grad()
        output, h = net(inputs, h)
        loss = criterion(output, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        optimizer.step()
        if counter % 10 == 0:
            print(f"Epoch: {e + 1}/{epochs}... Step: {counter}... Loss: {loss.item():.6f}")
