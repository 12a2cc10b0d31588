'''Train CIFAR10 with PyTorch (kuangliu's loop, mixed precision). Images are random here, classes are colors.'''
import argparse
import time

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision
from torchvision import transforms

parser = argparse.ArgumentParser(description="PyTorch CIFAR10 Training")
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--workers", default=6, type=int)
args = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"


class FakeCifar(torch.utils.data.Dataset):
    def __init__(self, length):
        self.length = length
        self.transform = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()])

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        label = i % 10
        image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(i)) * 0.5
        image[label % 3] += 0.05 * label
        return self.transform(image), label


print("==> Preparing data..", flush=True)
loader = lambda n, shuffle: torch.utils.data.DataLoader(
    FakeCifar(n), batch_size=128, shuffle=shuffle, num_workers=args.workers, pin_memory=True, persistent_workers=True
)
trainloader, testloader = loader(12800, True), loader(1280, False)
print("==> Building model..", flush=True)
net = torchvision.models.resnet18(num_classes=10).to(device, memory_format=torch.channels_last)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
scaler = torch.amp.GradScaler("cuda")

for epoch in range(200):
    print("\nEpoch: %d" % epoch, flush=True)
    net.train()
    train_loss, correct, total, began = 0.0, 0, 0, time.time()
    for batch_idx, (inputs, targets) in enumerate(trainloader):
        inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            outputs = net(inputs)
            loss = criterion(outputs, targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        train_loss += loss.item()
        total += targets.size(0)
        correct += outputs.argmax(1).eq(targets).sum().item()
        if batch_idx % 25 == 24:
            print("Loss: %.3f | Acc: %.3f%% (%d/%d)" % (train_loss / (batch_idx + 1), 100.0 * correct / total, correct, total), flush=True)
    net.eval()
    with torch.no_grad():
        right = sum(net(x.to(device)).argmax(1).eq(y.to(device)).sum().item() for x, y in testloader)
    print("Test acc %.2f%% in %.1f s" % (100 * right / 1280, time.time() - began), flush=True)
    scheduler.step()
