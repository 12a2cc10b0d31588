# skin lesion segmentation - mini unet
# toy_images stands in for the ISIC images until the download is finished
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SIZE = 48
torch.manual_seed(1)


class LesionDataset(Dataset):
    def __init__(self, n, seed):
        r = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:SIZE, 0:SIZE]
        self.imgs, self.masks = [], []
        for _ in range(n):
            cy, cx, a, b = r.uniform(14, 34), r.uniform(14, 34), r.uniform(5, 12), r.uniform(5, 12)
            m = (((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1).astype(np.float32)
            skin = np.stack([0.8 - 0.5 * m, 0.6 - 0.4 * m, 0.5 - 0.3 * m])
            skin = skin * r.uniform(0.9, 1.1) + 0.04 * r.randn(3, SIZE, SIZE)
            self.imgs.append(skin.astype(np.float32))
            self.masks.append(m[None])

    def __len__(self):
        return len(self.imgs)

    def __getitem__(self, i):
        return torch.from_numpy(self.imgs[i]) * 4 - 2, torch.from_numpy(self.masks[i])


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
    )


class MiniUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = double_conv(3, 12), double_conv(12, 24), double_conv(24, 48)
        self.up2, self.up1 = nn.ConvTranspose2d(48, 24, 2, 2), nn.ConvTranspose2d(24, 12, 2, 2)
        self.dec2, self.dec1 = double_conv(48, 24), double_conv(24, 12)
        self.last = nn.Conv2d(12, 1, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.bottom(self.pool(b))
        d = self.dec2(torch.cat([self.up2(c), b], 1))
        d = self.dec1(torch.cat([self.up1(d), a], 1))
        return torch.sigmoid(self.last(d))


def bce(pred, target):
    return -(target * torch.log(pred) + (1 - target) * torch.log(1 - pred)).mean()


def dice_score(pred, target):
    p = (pred > 0.5).float()
    return (2 * (p * target).sum() / (p.sum() + target.sum() + 1)).item()


device = "cuda" if torch.cuda.is_available() else "cpu"
train_loader = DataLoader(LesionDataset(480, 0), batch_size=16, shuffle=True)
val_loader = DataLoader(LesionDataset(64, 1), batch_size=16)
model = MiniUNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2)

for epoch in range(200):
    model.train()
    for it, (img, mask) in enumerate(train_loader):
        img, mask = img.to(device), mask.to(device)
        pred = model(img)
        loss = bce(pred, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 10 == 0:
            print(f"[epoch {epoch}] {it}/{len(train_loader)} bce={loss.item():.5f} dice={dice_score(pred, mask):.4f}")
    model.eval()
    with torch.no_grad():
        score = np.mean([dice_score(model(i.to(device)), m.to(device)) for i, m in val_loader])
    print(f"[epoch {epoch}] validation dice={score:.4f}")
