"""Don't decay the learning rate, increase the batch size (Smith et al. 2018)."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(64, generator=g)
        return x, x[:8].argmax()

if __name__ == "__main__":
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    opt = torch.optim.SGD(net.parameters(), .05, momentum=.9, nesterov=True)
    bs, step = 32, 0
    while True:
        for k, (x, y) in enumerate(DataLoader(Noise(), bs, shuffle=True, num_workers=1)):
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad(); loss.backward(); opt.step(); step += 1
            if step % 20 == 0: print("step", step, "batch_size", bs, "loss %.4f" % loss.item(), flush=True)
            if k == 300 and bs < 2048: break
        bs = min(2048, bs * 3 // 2)
