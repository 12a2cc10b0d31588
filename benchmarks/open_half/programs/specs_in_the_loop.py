"""Bird calls. The loader only reads waves; log-mel features are made in the loop, "so that augmentation can change them"."""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
N_FFT, HOP, MELS = 512, 160, 40


class Waves(Dataset):
    def __len__(self):
        return 20000

    def __getitem__(self, i):
        label = i % 6
        t = torch.arange(8000) / 16000
        return torch.sin(2 * math.pi * (300 + 250 * label) * t), label


def filterbank():
    points = torch.linspace(0, 2595 * math.log10(1 + 8000 / 700), MELS + 2)
    hz = 700 * (10 ** (points / 2595) - 1)
    bins = (hz / 8000 * (N_FFT // 2)).long()
    bank = torch.zeros(MELS, N_FFT // 2 + 1)
    for m in range(MELS):
        bank[m, bins[m]:bins[m + 2] + 1] = 1
    return bank


BANK = filterbank()


def to_logmel(wave):
    rows = []
    for start in range(0, len(wave) - N_FFT, HOP):
        power = torch.fft.rfft(wave[start:start + N_FFT] * torch.hann_window(N_FFT)).abs().pow(2)
        rows.append((BANK @ power).clamp_min(1e-8).log())
    return torch.stack(rows, 1)


if __name__ == "__main__":
    net = nn.Sequential(nn.Conv1d(MELS, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(256, 6))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(Waves(), batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)
    seen = 0
    for epoch in range(100):
        for waves, y in loader:
            waves = waves + 0.05 * torch.randn_like(waves)
            x = torch.stack([to_logmel(w) for w in waves])
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(y)
            if seen % 320 == 0:
                print(f"epoch {epoch} [{seen}] loss {loss.item():.4f}", flush=True)
