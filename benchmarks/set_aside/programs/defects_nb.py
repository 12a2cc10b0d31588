# Exported from defects.ipynb
# %% imports
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% settings
IMG = 64
N_TRAIN, N_VAL = 640, 128
BATCH = 32
EPOCHS = 200
WORKERS = 2


# %% data: crops from the line camera, 3 kinds of defects and "ok"
class Crops(Dataset):
    def __init__(self, n, seed):
        g = np.random.default_rng(seed)
        self.y = g.integers(0, 4, n)
        self.x = g.normal(0.5, 0.15, (n, 1, IMG, IMG)).astype(np.float32)
        for i, k in enumerate(self.y):
            r, c = g.integers(8, IMG - 24, 2)
            if k == 1:
                self.x[i, 0, r, c:c + 16] += 0.6
            elif k == 2:
                self.x[i, 0, r:r + 16, c] += 0.6
            elif k == 3:
                self.x[i, 0, r:r + 5, c:c + 5] -= 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if np.random.rand() < 0.5:
            x = x[:, ::-1].copy()
        return torch.from_numpy(x), int(self.y[i])


# %% model
def make_model():
    layers, c = [], 1
    for o in (16, 32, 64, 64):
        layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
        c = o
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * (IMG // 16) ** 2, 4))


# %% training
def main():
    torch.manual_seed(0)
    kw = dict(batch_size=BATCH, num_workers=WORKERS, multiprocessing_context="spawn", pin_memory=device == "cuda")
    train_dl = DataLoader(Crops(N_TRAIN, 0), shuffle=True, **kw)
    val_dl = DataLoader(Crops(N_VAL, 1), **kw)
    model = make_model().to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    crit = nn.CrossEntropyLoss()
    print("train", len(train_dl.dataset), "val", len(val_dl.dataset), "on", device, flush=True)
    t0 = time.time()
    for epoch in range(EPOCHS):
        model.train()
        tot = 0.0
        for x, y in train_dl:
            x, y = x.to(device), y.to(device)
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(y)
        model.eval()
        ok = 0
        with torch.no_grad():
            for x, y in val_dl:
                ok += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
        print(f"Epoch {epoch + 1}/{EPOCHS} - loss: {tot / N_TRAIN:.4f} - val_acc: {ok / N_VAL:.3f} "
              f"- {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()
