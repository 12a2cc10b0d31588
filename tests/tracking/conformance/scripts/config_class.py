"""A trainer class built from a dataclass of settings, parameter groups with rates of their own."""

import dataclasses

import record
import torch


@dataclasses.dataclass
class Config:
    lr: float = 0.02
    steps: int = 40
    width: int = 16


class Trainer:
    def __init__(self, config):
        self.config = config
        self.model = torch.nn.Sequential(torch.nn.Linear(6, config.width), torch.nn.SiLU(), torch.nn.Linear(config.width, 1))
        groups = [
            {"params": self.model[0].parameters()},
            {"params": self.model[2].parameters(), "lr": config.lr / 10, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=config.lr)

    def train_step(self, x):
        loss = torch.nn.functional.huber_loss(self.model(x), x.amax(1, keepdim=True))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self):
        for _ in range(self.config.steps):
            record.step(loss=self.train_step(torch.randn(16, 6)), lr=self.config.lr)


torch.manual_seed(0)
trainer = Trainer(Config())
trainer.fit()
record.done(trainer.model)
print(trainer.config)
