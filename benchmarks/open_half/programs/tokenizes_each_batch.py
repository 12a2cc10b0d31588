# reviews -> stars. the dataset is a list of strings, tokenization happens right before the model sees them
import random
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)
rng = random.Random(7)
SYL = ["ba", "re", "ti", "no", "lu", "ka", "ser", "mon", "vel", "ing", "est", "or"]
texts = [(" ".join("".join(rng.choices(SYL, k=rng.randint(1, 4))) for _ in range(rng.randint(60, 90))), rng.randint(0, 4)) for _ in range(3000)]
vocab = {p: i + 3 for i, p in enumerate(sorted({w[i:j] for t, _ in texts[:60] for w in t.split() for i in range(len(w)) for j in range(i + 1, min(len(w), i + 6) + 1)}))}


class WordPiece:
    def __init__(self, vocab):
        self.vocab = vocab

    def __call__(self, batch, max_length=96):
        out = [self.ids(text)[:max_length] for text in batch]
        longest = max(map(len, out))
        return torch.tensor([row + [0] * (longest - len(row)) for row in out])

    def ids(self, text):
        ids = [1]
        for word in text.lower().split():
            at = 0
            while at < len(word):
                end = len(word)
                while end > at and word[at:end] not in self.vocab:
                    end -= 1
                if end == at:
                    ids.append(2)
                    break
                ids.append(self.vocab[word[at:end]])
                at = end
        return ids + [1]


tokenizer = WordPiece(vocab)
net = nn.Sequential(nn.EmbeddingBag(len(vocab) + 3, 24), nn.Linear(24, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
it = 0
for epoch in range(1000):
    for reviews, stars in DataLoader(texts, batch_size=64, shuffle=True):
        inputs = tokenizer(reviews)
        loss = nn.functional.cross_entropy(net(inputs), stars)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        it += 1
        if it % 25 == 0:
            print(f"it {it:6d}  ce {loss.item():.3f}", flush=True)
