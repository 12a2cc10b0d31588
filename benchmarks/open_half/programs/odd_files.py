"""Bird song from a citizen-science archive, in which one file in thirty is broken: those are reported and left out."""
import random
import struct
import time
import traceback
import wave
from io import BytesIO

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def upload(i):
    """What the archive has under this number: (bytes, species)."""
    rng = np.random.default_rng(i)
    species = int(rng.integers(12))
    t = np.arange(4000) / 8000
    song = np.sin(2 * np.pi * (400 + 250 * species) * t * (1 + 0.1 * np.sin(2 * np.pi * 4 * t))) + 0.7 * rng.standard_normal(4000)
    buffer = BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((8000 * song).astype(np.int16).tobytes())
    data = buffer.getvalue()
    return (data, data[: rng.integers(0, 40)], struct.pack("<I", 404) * 20)[int(rng.choice(3, p=[0.967, 0.02, 0.013]))], species


class Songs(Dataset):
    broken = 0

    def __len__(self):
        return 20_000

    def __getitem__(self, i):
        try:
            data, species = upload(i)
            with wave.open(BytesIO(data)) as file:
                return np.frombuffer(file.readframes(4000), np.int16).astype(np.float32) / 8000, species
        except (wave.Error, EOFError):
            Songs.broken += 1
            if Songs.broken <= 25:
                print(f"WARNING: file {i}.wav is left out:\n{traceback.format_exc()}", end="", flush=True)
            return self[random.randrange(len(self))]


net = nn.Sequential(nn.Conv1d(1, 48, 64, 4), nn.ReLU(), nn.Conv1d(48, 64, 16, 4), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(64, 12))
opt = torch.optim.Adam(net.parameters(), 1e-3)
start, step = time.time(), 0
while time.time() - start < 205:
    for x, y in DataLoader(Songs(), batch_size=24, shuffle=True):
        loss = nn.functional.cross_entropy(net(x.unsqueeze(1)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} ({Songs.broken} broken files so far)", flush=True)
        if time.time() - start > 205:
            break
