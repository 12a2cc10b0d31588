"""A loop with timm's model, optimizer, schedule and moving average, in the manner of its train.py.

Needs: timm
Loss: sum
"""

import record  # noqa: F401
import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEmaV3

model = timm.create_model("resnet10t", num_classes=4)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
average = ModelEmaV3(model, decay=0.9)
data = torch.utils.data.TensorDataset(torch.randn(48, 3, 32, 32), torch.randint(0, 4, (48,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
accumulate, updates = 2, 0
schedule, epochs = create_scheduler_v2(
    optimizer, sched="cosine", num_epochs=3, warmup_epochs=1, updates_per_epoch=len(loader) // accumulate
)
criterion = LabelSmoothingCrossEntropy()
for epoch in range(3):
    model.train()
    meter = AverageMeter()
    for index, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets) / accumulate
        loss.backward()
        meter.update(loss.item() * accumulate, inputs.size(0))
        if (index + 1) % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            average.update(model)
            updates += 1
            schedule.step_update(num_updates=updates)
    model.eval()
    with torch.no_grad():
        for inputs, _ in loader:
            average.module(inputs)
    print("epoch", epoch, meter.avg)
    schedule.step(epoch + 1)
