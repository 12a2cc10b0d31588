"""A supervised trainer of Ignite, evaluated on the loader that it trains on.

Needs: ignite
Loss: sum
"""

import record  # noqa: F401
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss

net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = torch.nn.CrossEntropyLoss()
data = torch.utils.data.TensorDataset(torch.randn(160, 8), torch.randint(0, 3, (160,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
trainer = create_supervised_trainer(net, optimizer, criterion, gradient_accumulation_steps=2)
evaluator = create_supervised_evaluator(net, metrics={"accuracy": Accuracy(), "loss": Loss(criterion)})


@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(loader)
    print("epoch", engine.state.epoch, evaluator.state.metrics)


trainer.run(loader, max_epochs=3)
