"""lightning on two CPU processes, validation each half epoch, checkpoint of the best"""
import tempfile
import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Tagger(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.out = torch.nn.Embedding(500, 64), torch.nn.LSTM(64, 96, batch_first=True, bidirectional=True), torch.nn.Linear(192, 9)

    def step(self, batch):
        x, y = batch
        z = self.out(self.rnn(self.emb(x))[0])
        return torch.nn.functional.cross_entropy(z.flatten(0, 1), y.flatten())

    def training_step(self, batch, _):
        loss = self.step(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.step(batch), prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 500, (n, 30), generator=g)
    return TensorDataset(x, (x + x.roll(1, 1)) % 9)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1000, val_check_interval=0.5, default_root_dir=root, logger=False, log_every_n_steps=10, enable_model_summary=False)
        trainer.fit(Tagger(), DataLoader(data(8000, 0), 64, shuffle=True), DataLoader(data(1600, 1), 64))
