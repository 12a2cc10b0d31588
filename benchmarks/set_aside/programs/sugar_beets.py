# Densité normale des capteurs de la râperie (betteraves) : RealNVP, alarme si la vraisemblance est faible
import tempfile

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DIM = 16


def capteurs(n, graine):
    g = torch.Generator().manual_seed(graine)
    w = torch.randn(4, DIM, generator=torch.Generator().manual_seed(0))
    z = torch.randn(n, 4, generator=g)
    mode = torch.randint(0, 3, (n, 1), generator=g).float() - 1
    x = torch.tanh(z @ w + 1.5 * mode) + 0.03 * torch.randn(n, DIM, generator=g)
    return TensorDataset(x)


class Couplage(nn.Module):
    def __init__(self, pair, h=128):
        super().__init__()
        self.register_buffer("m", ((torch.arange(DIM) + pair) % 2).float())
        self.net = nn.Sequential(nn.Linear(DIM, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2 * DIM))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        s, t = self.net(x * self.m).chunk(2, -1)
        s = 2 * torch.tanh(s / 2) * (1 - self.m)
        return x * s.exp() + t * (1 - self.m), s.sum(-1)


class RealNVP(L.LightningModule):
    def __init__(self, couches=10, lr=5e-4):
        super().__init__()
        self.lr = lr
        self.flot = nn.ModuleList(Couplage(i % 2) for i in range(couches))

    def log_prob(self, x):
        total = 0
        for couche in self.flot:
            x, ldj = couche(x)
            total = total + ldj
        return total - 0.5 * (x**2).sum(-1) - 0.9189385 * DIM

    def training_step(self, batch, i):
        loss = -self.log_prob(batch[0]).mean()
        self.log("train_nll", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, i):
        self.log("val_nll", -self.log_prob(batch[0]).mean())

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"époque {self.current_epoch}: train_nll {m['train_nll_epoch']:.3f} val_nll {m['val_nll']:.3f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.lr)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, 160)]


if __name__ == "__main__":
    L.seed_everything(9)
    with tempfile.TemporaryDirectory(prefix="raperie_") as dossier:
        trainer = L.Trainer(
            accelerator="cpu", max_epochs=160, enable_progress_bar=False, default_root_dir=dossier, enable_checkpointing=False, gradient_clip_val=5.0,
            logger=L.pytorch.loggers.CSVLogger(dossier),
        )  # fmt: skip
        trainer.fit(
            RealNVP(),
            DataLoader(capteurs(24000, 1), batch_size=128, shuffle=True),
            DataLoader(capteurs(4000, 2), batch_size=1000),
        )
