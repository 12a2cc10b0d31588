"""Duck breeds, 6 classes, with a penalty on the activations of the last block (sparse features for our CAM plots)."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
NUM_CLASSES = 6
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def make_ducks(n):
    y = torch.randint(0, NUM_CLASSES, (n,))
    protos = torch.randn(NUM_CLASSES, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    x = F.interpolate(protos[y], size=(32, 32), mode="bilinear") + 3.0 * torch.randn(n, 3, 32, 32)
    return TensorDataset(x, y)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if stride != 1 or cin != cout else nn.Identity()

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.short(x))


class DuckNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.layer1 = Block(16, 16, 1)
        self.layer2 = Block(16, 32, 2)
        self.layer3 = Block(32, 64, 2)
        self.fc = nn.Linear(64, NUM_CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.stem(x)))))
        return self.fc(x.mean((2, 3)))


activation = {}


def get_activation(name):
    def hook(module, inputs, output):
        flat = output.flatten(1)
        activation[name] = flat.abs().mean()
        activation[name + "/dead"] = (flat.detach() < 1e-3).float().mean()
        activation[name + "/p99"] = flat.detach().amax(1).quantile(0.99)

    return hook


def train_one_epoch(model, loader, criterion, optimizer, epoch):
    model.train()
    start = time.time()
    for i, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        model.layer1.register_forward_hook(get_activation("layer1"))
        model.layer3.register_forward_hook(get_activation("layer3"))
        outputs = model(images)
        loss = criterion(outputs, labels) + 1e-3 * activation["layer3"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (i + 1) % 10 == 0:
            acc = (outputs.argmax(1) == labels).float().mean().item()
            print(
                f"Epoch [{epoch}] Step [{i + 1}/{len(loader)}] Loss: {loss.item():.4f} Acc: {acc:.3f} "
                f"dead: {activation['layer3/dead'].item():.2f} elapsed: {time.time() - start:.1f}s"
            )


def main():
    loader = DataLoader(make_ducks(2400), batch_size=32, shuffle=True)
    model = DuckNet().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    print(model.__class__.__name__, sum(p.numel() for p in model.parameters()))
    for epoch in range(1, 61):
        train_one_epoch(model, loader, criterion, optimizer, epoch)


if __name__ == "__main__":
    main()
