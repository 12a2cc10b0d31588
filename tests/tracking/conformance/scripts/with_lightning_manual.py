"""Lightning with manual optimization: two optimizers."""

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
        self.automatic_optimization = False
        self.first, self.second = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        first, second = self.optimizers()
        loss_a = torch.nn.functional.mse_loss(self.first(inputs), targets)
        first.zero_grad()
        self.manual_backward(loss_a)
        first.step()
        loss_b = torch.nn.functional.l1_loss(self.second(inputs), targets)
        second.zero_grad()
        self.manual_backward(loss_b)
        second.step()
        record.step(loss_a=loss_a.item(), loss_b=loss_b.item(), lr=0.05, epoch=self.current_epoch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.first.parameters(), lr=0.05), torch.optim.SGD(self.second.parameters(), lr=0.02)


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
