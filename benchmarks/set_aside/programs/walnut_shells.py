"""Shell fragments among walnut kernels. Lightning with sharpness-aware minimisation, two passes in each step."""
import tempfile

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


def kernels(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=g)
    pos = torch.arange(28).float()
    cy, cx = 6 + 16 * torch.rand(2, n, generator=g)
    r2 = (pos[None, :, None] - cy[:, None, None]) ** 2 + (pos[None, None] - cx[:, None, None]) ** 2
    size = torch.tensor([10.0, 22.0, 40.0])[y][:, None, None] * (0.8 + 0.4 * torch.rand(n, 1, 1, generator=g))
    x = (r2 < size).float() + 0.7 * torch.randn(n, 28, 28, generator=g)
    y = torch.where(torch.rand(n, generator=g) < 0.05, torch.randint(3, (n,), generator=g), y)
    return TensorDataset(x[:, None], y)


class SamClassifier(L.LightningModule):
    def __init__(self, rho=0.05):
        super().__init__()
        self.automatic_optimization = False
        self.rho = rho
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Linear(192, 3),
        )

    def training_step(self, batch, i):
        x, y = batch
        opt = self.optimizers()
        loss = F.cross_entropy(self.net(x), y)
        self.manual_backward(loss)
        params = [p for p in self.parameters() if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in params]).norm() + 1e-12
        steps = [p.grad * (self.rho / norm) for p in params]
        with torch.no_grad():
            for p, e in zip(params, steps):
                p.add_(e)
        opt.zero_grad()
        self.manual_backward(F.cross_entropy(self.net(x), y))
        with torch.no_grad():
            for p, e in zip(params, steps):
                p.sub_(e)
        opt.step()
        opt.zero_grad()
        self.log("train_loss", loss, prog_bar=True)

    def validation_step(self, batch, _):
        x, y = batch
        out = self.net(x)
        self.log_dict({"val_loss": F.cross_entropy(out, y), "val_acc": (out.argmax(1) == y).float().mean()}, prog_bar=True)

    def on_train_epoch_end(self):
        self.lr_schedulers().step()

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, 30)]


if __name__ == "__main__":
    L.seed_everything(8)
    folder = tempfile.mkdtemp(prefix="walnut_")
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=30, logger=CSVLogger(folder), enable_checkpointing=False, default_root_dir=folder,
        enable_model_summary=False,
    )
    trainer.fit(
        SamClassifier(), DataLoader(kernels(12000, 0), 48, shuffle=True, drop_last=True), DataLoader(kernels(600, 1), 100)
    )
