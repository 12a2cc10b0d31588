"""Solubility of small molecules: a new head on a frozen graph encoder, with Lightning."""
import argparse
import time

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ATOMS, KINDS = 18, 9


def make_molecules(count, seed):
    g = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, KINDS, (count, ATOMS), generator=g)
    bonds = torch.zeros(count, ATOMS, ATOMS)
    rows = torch.arange(count)
    for atom in range(1, ATOMS):
        other = (torch.rand(count, generator=g) * atom).long()
        bonds[rows, atom, other] = bonds[rows, other, atom] = 1
    degree = bonds.sum(2)
    polar = (kinds < 3).float()
    weight = (kinds.float() * 1.3 + 1).sum(1) / 100
    pairs = torch.einsum("ni,nij,nj->n", polar, bonds, polar) / 2
    leaves = ((degree == 1).float() * polar).sum(1)
    return kinds, bonds, weight, pairs, leaves


class Encoder(nn.Module):
    def __init__(self, width=96, layers=4):
        super().__init__()
        self.kind = nn.Embedding(KINDS, width)
        self.messages = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.updates = nn.ModuleList(nn.Sequential(nn.Linear(2 * width, width), nn.BatchNorm1d(width), nn.ReLU(),
                                                   nn.Dropout(0.1)) for _ in range(layers))

    def forward(self, kinds, bonds):
        h = self.kind(kinds)
        for message, update in zip(self.messages, self.updates):
            both = torch.cat([h, bonds @ message(h)], -1)
            h = h + update(both.flatten(0, 1)).view_as(h)
        return torch.cat([h.mean(1), h.amax(1)], 1)


def pretrain(encoder, steps):
    """Multi-task pretraining on descriptors that cost nothing."""
    kinds, bonds, weight, pairs, leaves = make_molecules(6000, seed=1)
    targets = torch.stack([weight, pairs, leaves], 1)
    targets = (targets - targets.mean(0)) / targets.std(0)
    head = nn.Linear(192, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=2e-3)
    for step in range(1, steps + 1):
        i = torch.randint(0, len(kinds), (64,))
        loss = F.mse_loss(head(encoder(kinds[i], bonds[i])), targets[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"pretraining step {step}/{steps} mse {loss.item():.4f}", flush=True)


class SolventHead(L.LightningModule):
    def __init__(self, encoder, lr):
        super().__init__()
        self.encoder, self.lr = encoder, lr
        self.encoder.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(192, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 1))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()     # statistics of the pretraining stay as they are
        return self

    def forward(self, kinds, bonds):
        with torch.no_grad():
            features = self.encoder(kinds, bonds)
        return self.head(features).squeeze(1)

    def training_step(self, batch, _):
        kinds, bonds, y = batch
        loss = F.mse_loss(self(kinds, bonds), y)
        self.log("train", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        kinds, bonds, y = batch
        self.log("val", F.mse_loss(self(kinds, bonds), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=self.lr)


class Lines(L.Callback):
    began = time.time()

    def on_train_epoch_end(self, trainer, module):
        m = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch} train {m['train']:.4f} val {m['val']:.4f} {time.time() - self.began:.0f} s",
              flush=True)


def solubility(parts, noise_seed):
    kinds, bonds, weight, pairs, leaves = parts
    y = 0.8 * leaves - 0.5 * pairs - 2.5 * weight + 0.3 * (leaves * pairs) ** 0.5
    y = y + 0.1 * torch.randn(len(y), generator=torch.Generator().manual_seed(noise_seed))
    return TensorDataset(kinds, bonds, (y + 1.0) / 1.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--molecules", type=int, default=1600)
    parser.add_argument("--pretraining", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()
    torch.set_num_threads(1)
    L.seed_everything(2)
    encoder = Encoder()
    pretrain(encoder, args.pretraining)
    model = SolventHead(encoder.eval(), args.lr)
    model.train()
    train = DataLoader(solubility(make_molecules(args.molecules, 5), 6), batch_size=32, shuffle=True)
    val = DataLoader(solubility(make_molecules(600, 7), 8), batch_size=200)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, callbacks=[Lines()], log_every_n_steps=10)
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
