import lightning as L
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitAutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 64))
        self.decoder = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 1024))

    def training_step(self, batch, batch_idx):
        x = batch[0]
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(batch[0])), batch[0]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


x = torch.randn(16384, 32) @ torch.randn(32, 1024)
train = DataLoader(TensorDataset(x[:15000]), batch_size=512, shuffle=True, num_workers=4, persistent_workers=True, pin_memory=True)
val = DataLoader(TensorDataset(x[15000:]), batch_size=512, num_workers=2, persistent_workers=True)
print("fitting", flush=True)
L.Trainer(max_epochs=1000, precision="bf16-mixed", accelerator="gpu", devices=1, plugins=LightningEnvironment(), logger=False, enable_checkpointing=False).fit(LitAutoEncoder(), train, val)
