# keyword / sound event classifier on raw audio (M5 style 1d cnn)
# dataset: synthetic door chimes, 1 s at 4 kHz
import math
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SR = 4000
N_CLASSES = 8
EPOCHS = 130
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def chime(label, n):
    t = torch.arange(SR) / SR
    f = 220 * 2 ** (label / 5.0)
    out = torch.zeros(n, SR)
    for i in range(n):
        detune = 1 + 0.02 * torch.randn(1)
        start = torch.randint(0, SR // 3, (1,)).item()
        tone = torch.sin(2 * math.pi * f * detune * t) + 0.5 * torch.sin(2 * math.pi * 1.5 * f * detune * t)
        tone = tone * torch.exp(-4 * t)
        out[i, start:] = tone[: SR - start]
    return out + 1.2 * torch.randn(n, SR)


torch.manual_seed(11)
wavs = torch.cat([chime(c, 450) for c in range(N_CLASSES)]).unsqueeze(1)
labels = torch.arange(N_CLASSES).repeat_interleave(450)
train_set, val_set = random_split(TensorDataset(wavs, labels), [3552, 48])
train_dl = DataLoader(train_set, batch_size=32, shuffle=True)
val_dl = DataLoader(val_set, batch_size=48)


class M5(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, ch, 80, stride=4), nn.BatchNorm1d(ch), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(ch, ch, 3), nn.BatchNorm1d(ch), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(ch, 2 * ch, 3), nn.BatchNorm1d(2 * ch), nn.ReLU(), nn.MaxPool1d(4),
        )
        self.fc = nn.Linear(2 * ch, N_CLASSES)

    def forward(self, x):
        return self.fc(self.body(x).mean(-1))


model = M5().to(device)
opt = torch.optim.Adam(model.parameters(), lr=5e-4, weight_decay=1e-4)
ce = nn.CrossEntropyLoss()
history = {"loss": [], "val_loss": [], "val_acc": []}
print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}")

for epoch in range(EPOCHS):
    tic = time.time()
    model.train()
    running = 0.0
    for wav, lab in train_dl:
        wav, lab = wav.to(device), lab.to(device)
        opt.zero_grad()
        loss = ce(model(wav), lab)
        loss.backward()
        opt.step()
        running += loss.item()

    model.eval()
    val_loss, correct = 0, 0
    for wav, lab in val_dl:
        wav, lab = wav.to(device), lab.to(device)
        out = model(wav)
        val_loss += ce(out, lab)
        correct += (out.argmax(1) == lab).sum().item()

    # keep everything for the plots at the end
    history["loss"].append(running / len(train_dl))
    history["val_loss"].append(val_loss / len(val_dl))
    history["val_acc"].append(correct / len(val_set))
    print(
        f"epoch {epoch + 1}/{EPOCHS} loss={history['loss'][-1]:.4f} val_loss={history['val_loss'][-1]:.4f} "
        f"val_acc={history['val_acc'][-1]:.3f} time={time.time() - tic:.1f}s"
    )
