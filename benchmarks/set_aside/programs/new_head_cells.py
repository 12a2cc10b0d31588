#!/usr/bin/env python
# coding: utf-8

# # Transfer learning on leaves
# adapted from the tutorial, exported with `jupyter nbconvert --to script`

# In[1]:

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
device

# In[2]:


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.fc = nn.Linear(64 * 16, classes)

    def forward(self, x):
        return self.fc(self.features(x))


model_ft = Net(1000).to(device)   # weights of the zoo go here
for param in model_ft.features.parameters():
    param.requires_grad = False

# In[3]:

criterion = nn.CrossEntropyLoss()
optimizer_ft = torch.optim.SGD(filter(lambda p: p.requires_grad, model_ft.parameters()), lr=0.01, momentum=0.9)
exp_lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer_ft, step_size=70, gamma=0.5)

# In[4]:

# 6 kinds of leaves
model_ft.fc = nn.Linear(64 * 16, 6).to(device)

# In[5]:

proto = torch.randn(6, 3, 32, 32)


def loader(n_batches, bs=96):
    for _ in range(n_batches):
        labels = torch.randint(0, 6, (bs,))
        yield F.interpolate(proto[labels] + 0.5 * torch.randn(bs, 3, 32, 32), 48), labels


# In[6]:

num_epochs = 2500
for epoch in range(num_epochs):
    print(f"Epoch {epoch}/{num_epochs - 1}")
    print("-" * 10, flush=True)
    running_loss = running_corrects = seen = 0
    for inputs, labels in loader(12):
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer_ft.zero_grad()
        outputs = model_ft(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer_ft.step()
        running_loss += loss.item() * inputs.size(0)
        running_corrects += (outputs.argmax(1) == labels).sum().item()
        seen += inputs.size(0)
    exp_lr_scheduler.step()
    print(f"train Loss: {running_loss / seen:.4f} Acc: {running_corrects / seen:.4f}", flush=True)
    print()
