# -*- coding: utf-8 -*-
"""garment classifier, homework 3 (exported from colab)"""

# In[1]:
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
print("device:", device)

# In[2]:
# no internet on the lab machines, so we draw the clothes ourselves
CLASSES = ["tshirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
rng = np.random.RandomState(7)
protos = rng.rand(10, 7, 7)


def draw(n):
    labels = rng.randint(0, 10, size=n)
    imgs = np.kron(protos[labels], np.ones((1, 4, 4)))
    shift = rng.randint(-2, 3, size=(n, 2))
    for i in range(n):
        imgs[i] = np.roll(imgs[i], tuple(shift[i]), axis=(0, 1))
    imgs = imgs + 0.25 * rng.randn(n, 28, 28)
    return imgs.astype("float32")[:, None], labels.astype("int64")


x_train, y_train = draw(12000)
x_test, y_test = draw(1000)
train_loader = DataLoader(TensorDataset(torch.tensor(x_train), torch.tensor(y_train)), batch_size=64, shuffle=True)
test_loader = DataLoader(TensorDataset(torch.tensor(x_test), torch.tensor(y_test)), batch_size=250)


# In[3]:
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 5, padding=2)
        self.conv2 = nn.Conv2d(24, 48, 5, padding=2)
        self.fc1 = nn.Linear(48 * 7 * 7, 256)
        self.fc2 = nn.Linear(256, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


net = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
num_epochs = 150

# In[4]:
total_step = len(train_loader)
for epoch in range(num_epochs):
    t0 = time.time()
    net.train()
    for i, (images, labels) in enumerate(train_loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = net(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        if (i + 1) % 20 == 0:
            print("Epoch [{}/{}], Step [{}/{}], Loss: {:.4f}".format(epoch + 1, num_epochs, i + 1, total_step, loss.item()))
    net.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in test_loader:
            pred = net(images.to(device)).argmax(1).cpu()
            correct += (pred == labels).sum().item()
    print("test accuracy: {:.1f} %  ({:.1f}s)".format(100 * correct / len(x_test), time.time() - t0))
