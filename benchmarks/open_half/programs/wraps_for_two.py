'''Denoising autoencoder. We have two cards, so: --gpus 0,1'''
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n=4000):
        base = torch.linspace(0, 6.28, 128)
        self.clean = torch.stack([torch.sin(base * (1 + i % 9)) for i in range(n)])

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, idx):
        return self.clean[idx] + 0.3 * torch.randn(128), self.clean[idx]


class AE(nn.Module):
    def __init__(self):
        super(AE, self).__init__()
        self.encoder = nn.Sequential(nn.Linear(128, 512), nn.ReLU(True), nn.Linear(512, 512), nn.ReLU(True), nn.Linear(512, 24))
        self.decoder = nn.Sequential(nn.Linear(24, 512), nn.ReLU(True), nn.Linear(512, 128))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--gpus', default='0,1')
    ap.add_argument('--batch-size', default=128, type=int)
    opt = ap.parse_args()
    device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')
    model = AE().to(device)
    if len(opt.gpus.split(',')) > 1:
        model = nn.DataParallel(model)
        print("Let's use", len(opt.gpus.split(',')), "GPUs!", flush=True)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    loader = DataLoader(Noisy(), batch_size=opt.batch_size, shuffle=True)
    for epoch in range(1000):
        for noisy, clean in loader:
            noisy, clean = noisy.to(device), clean.to(device)
            output = model(noisy)
            loss = criterion(output, clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print('epoch [{}/{}], loss:{:.4f}'.format(epoch + 1, 1000, loss.item()), flush=True)


if __name__ == '__main__':
    main()
