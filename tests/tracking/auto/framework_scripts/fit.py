"""Lightning: a module fitted for two epochs with a validation after each, on one process or (--devices 2) on two."""

import argparse
import os

import lightning
import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--out")
args = parser.parse_args()
torch.manual_seed(3)
X = torch.randn(48, 4)
Y = X.sum(1, keepdim=True)
losses, val_losses = [], []


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.layer(x), y)
        losses.append(float(loss))
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(x), y))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            val_losses.append(float(self.trainer.callback_metrics["val_loss"]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


net = Net()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=args.devices,
    strategy="ddp" if args.devices > 1 else "auto",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=1,
)
data = TensorDataset(X, Y)
trainer.fit(net, DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16))
if args.out:
    with open(os.path.join(args.out, f"rank{trainer.global_rank}"), "w") as file:
        file.write(repr(losses))
else:
    say(trainer.global_step, [net], loss=losses, val_loss=val_losses)
