import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Mouth crops, 6 frames of 20x20, with the word that is spoken"""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        word = i % 20
        clip = torch.randn(6, 20, 20, generator=g)
        clip[:, :, word] += 1.5
        return {"clip": clip, "word": word, "speaker": i % 7, "id": i}


class Reader(nn.Module):
    def __init__(self, words=20):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
        self.rnn = nn.GRU(24 * 16, 96, batch_first=True)
        self.out = nn.Linear(96, words)

    def forward(self, clip):
        b, t = clip.shape[:2]
        f = self.conv(clip.reshape(b * t, 1, 20, 20)).reshape(b, t, -1)
        return self.out(self.rnn(f)[0][:, -1])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--workers", type=int, default=2)
    a = p.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Clips(1920), batch_size=12, shuffle=True, num_workers=a.workers, persistent_workers=True)
    model = Reader()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    t0 = time.time()
    for epoch in range(a.epochs):
        speakers, ids, right = [], [], []
        for i, batch in enumerate(loader):
            logits = model(batch["clip"])
            loss = nn.functional.cross_entropy(logits, batch["word"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            right.append((logits.argmax(1) == batch["word"]).float())
            speakers.append(batch["speaker"])
            ids.append(batch["id"])
            if i % 10 == 0:
                print(f"epoch {epoch} batch {i} loss {loss.item():.4f} time {time.time() - t0:.1f}", flush=True)
        right, speakers = torch.cat(right), torch.cat(speakers)
        print("accuracy by speaker:", [round(right[speakers == s].mean().item(), 2) for s in range(7)], flush=True)
