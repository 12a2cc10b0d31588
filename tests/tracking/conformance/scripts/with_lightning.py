"""Lightning with automatic optimization and a scheduler."""

import logging
import warnings

import lightning
import record
import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("train_loss", loss)
        record.step(loss=loss.item(), lr=self.optimizers().param_groups[0]["lr"], epoch=self.current_epoch)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]


torch.manual_seed(0)
x = torch.randn(48, 4)
net = Net()
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=3,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(net, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8))
record.done(net)
print("steps", trainer.global_step)
