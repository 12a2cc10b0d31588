"""Fine-grained pet breed classifier, trained from scratch on our own photos."""
import argparse
import io
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

BREEDS = ["abyssinian", "beagle", "bengal", "boxer", "persian", "pug", "ragdoll", "samoyed"]
MEAN = np.array([0.48, 0.45, 0.40], dtype=np.float32)
STD = np.array([0.23, 0.23, 0.23], dtype=np.float32)


def make_photo(label, rng, size=(480, 640)):
    h, w = size
    yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
    angle = np.pi * label / len(BREEDS)
    freq = 0.03 + 0.006 * label
    wave = np.sin((xx * np.cos(angle) + yy * np.sin(angle)) * freq + rng.uniform(0, 6))
    img = np.stack([wave * c for c in rng.uniform(0.4, 1.0, 3)], -1)
    blob = np.exp(-((xx - rng.uniform(0, w)) ** 2 + (yy - rng.uniform(0, h)) ** 2) / 2e4)
    img = img * 70 + 128 + 60 * blob[..., None]
    return np.clip(img, 0, 255).astype(np.uint8)


class PetPhotos(Dataset):
    def __init__(self, n, train, seed):
        rng = np.random.default_rng(seed)
        self.train = train
        self.files, self.labels = [], []
        for i in range(n):
            label = i % len(BREEDS)
            buf = io.BytesIO()
            np.savez_compressed(buf, img=make_photo(label, rng)[::2, ::2].repeat(2, 0).repeat(2, 1))
            self.files.append(buf.getvalue())
            self.labels.append(label)

    def __len__(self):
        return len(self.files) * (12 if self.train else 1)

    def __getitem__(self, i):
        i = i % len(self.files)
        img = np.load(io.BytesIO(self.files[i]))["img"].astype(np.float32) / 255.0
        if self.train:
            img = self.color_jitter(img)
            img = self.rotate(img, np.random.uniform(-20, 20))
            img = self.random_crop(img)
            if np.random.rand() < 0.5:
                img = img[:, ::-1]
        img = self.resize(img, 64)
        img = (img - MEAN) / STD
        return torch.from_numpy(np.ascontiguousarray(img.transpose(2, 0, 1))).float(), self.labels[i]

    def color_jitter(self, img):
        img = img * np.random.uniform(0.7, 1.3)
        grey = img.mean(-1, keepdims=True)
        img = grey + (img - grey) * np.random.uniform(0.6, 1.4)
        return np.clip(img, 0, 1) ** np.random.uniform(0.8, 1.2)

    def rotate(self, img, degrees):
        h, w, _ = img.shape
        a = np.deg2rad(degrees)
        yy, xx = np.mgrid[0:h, 0:w].astype(np.float32)
        yy, xx = yy - h / 2, xx - w / 2
        sx = np.clip(xx * np.cos(a) - yy * np.sin(a) + w / 2, 0, w - 1).astype(np.int64)
        sy = np.clip(xx * np.sin(a) + yy * np.cos(a) + h / 2, 0, h - 1).astype(np.int64)
        return img[sy, sx]

    def random_crop(self, img):
        h, w, _ = img.shape
        s = np.random.uniform(0.6, 1.0)
        ch, cw = int(h * s), int(w * s)
        y, x = np.random.randint(0, h - ch + 1), np.random.randint(0, w - cw + 1)
        return img[y:y + ch, x:x + cw]

    def resize(self, img, size):
        t = torch.from_numpy(np.ascontiguousarray(img)).permute(2, 0, 1)[None]
        return F.interpolate(t, size=(size, size), mode="bilinear", antialias=True)[0].permute(1, 2, 0).numpy()


def conv(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


def build_model():
    return nn.Sequential(conv(3, 24, 2), conv(24, 48, 2), conv(48, 96, 2), conv(96, 128, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, len(BREEDS)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    np.random.seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"device: {device}", flush=True)
    train_set, val_set = PetPhotos(96, True, 1), PetPhotos(32, False, 2)
    print(f"{len(train_set)} training and {len(val_set)} validation photos", flush=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)

    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    for epoch in range(args.epochs):
        model.train()
        start, seen = time.time(), 0
        for step, (images, labels) in enumerate(train_loader):
            images, labels = images.to(device), labels.to(device)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(labels)
            if step % 3 == 0:
                print(f"epoch {epoch} [{step}/{len(train_loader)}] loss {loss.item():.4f} "
                      f"{seen / (time.time() - start):.1f} img/s", flush=True)
        model.eval()
        correct = 0
        with torch.no_grad():
            for images, labels in val_loader:
                correct += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        print(f"epoch {epoch} val acc {correct / len(val_set):.3f}", flush=True)


if __name__ == "__main__":
    main()
