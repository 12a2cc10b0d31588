# Spoken digit strings with CTC: conv front end + BiGRU
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

N_MELS = 40
VOCAB = ["<blank>"] + list("0123456789")
BATCH_SIZE = 32
LR = 1e-3
EPOCHS = 200

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(11)


class DigitStrings(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        voices = np.random.default_rng(0).normal(0, 1, (10, N_MELS)).astype(np.float32)
        self.items = []
        for _ in range(n):
            k = int(rng.integers(3, 9))
            digits = rng.integers(0, 10, k)
            speed = int(np.clip(rng.lognormal(np.log(15), 0.5), 5, 40))
            frames = [np.zeros((int(rng.integers(0, 6)), N_MELS), np.float32)]
            for d in digits:
                length = max(3, speed + int(rng.integers(-2, 3)))
                env = np.sin(np.linspace(0.3, 2.8, length))[:, None]
                frames.append((env * voices[d]).astype(np.float32))
            spec = np.concatenate(frames)
            spec += rng.normal(0, 0.3, spec.shape).astype(np.float32)
            self.items.append((torch.from_numpy(spec), torch.tensor(digits + 1)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    specs, texts = zip(*batch)
    lengths = torch.tensor([len(s) for s in specs])
    text_lengths = torch.tensor([len(t) for t in texts])
    return nn.utils.rnn.pad_sequence(specs, batch_first=True), lengths, torch.cat(texts), text_lengths


class SpeechNet(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(N_MELS, 128, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(128, 128, 5, stride=2, padding=2), nn.ReLU())
        self.rnn = nn.GRU(128, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, len(VOCAB))

    def forward(self, x, lengths):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        x, _ = self.rnn(x)
        return self.fc(x).log_softmax(-1), torch.div(lengths + 3, 4, rounding_mode="floor")


def greedy(logp, lengths):
    out = []
    for row, n in zip(logp.argmax(-1), lengths):
        row = torch.unique_consecutive(row[:n])
        out.append(row[row != 0].tolist())
    return out


def main():
    print(f"Using {device}", flush=True)
    train_set, dev_set = DigitStrings(2000, 1), DigitStrings(128, 2)
    train_loader = DataLoader(train_set, BATCH_SIZE, shuffle=True, collate_fn=collate)
    dev_loader = DataLoader(dev_set, BATCH_SIZE, collate_fn=collate)
    print(f"train utterances: {len(train_set)}, dev utterances: {len(dev_set)}", flush=True)

    net = SpeechNet().to(device)
    ctc = nn.CTCLoss(blank=0)
    opt = torch.optim.Adam(net.parameters(), lr=LR)

    for epoch in range(1, EPOCHS + 1):
        net.train()
        t0 = time.time()
        for it, (specs, lengths, texts, text_lengths) in enumerate(train_loader):
            logp, out_lengths = net(specs.to(device), lengths)
            loss = ctc(logp.transpose(0, 1), texts, out_lengths, text_lengths)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()
            if it % 5 == 0:
                print(f"Epoch {epoch} | iter {it:3d} | ctc {loss.item():.3f}", flush=True)
        net.eval()
        exact = total = 0
        with torch.no_grad():
            for specs, lengths, texts, text_lengths in dev_loader:
                logp, out_lengths = net(specs.to(device), lengths)
                for hyp, ref in zip(greedy(logp.cpu(), out_lengths), texts.split(text_lengths.tolist())):
                    exact += hyp == ref.tolist()
                    total += 1
        print(f"Epoch {epoch} | dev string accuracy {exact / total:.3f} | {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
