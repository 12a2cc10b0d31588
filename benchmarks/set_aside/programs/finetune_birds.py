"""Linear probing / fine-tuning of a pretrained convnet on a small fine-grained set."""
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

CONFIG = yaml.safe_load("""
seed: 3
data:
  classes: 20
  images: 3000
  size: 40
model:
  width: 32
  pretrained_classes: 100
  freeze_backbone: true
optim:
  name: sgd
  lr: 0.05
  momentum: 0.9
  weight_decay: 1.0e-4
train:
  batch_size: 32
  epochs: 60
  log_every: 15
""")

device = "cuda" if torch.cuda.is_available() else "cpu"


class ConvNet(nn.Module):
    def __init__(self, width, num_classes):
        super().__init__()
        chans = [3, width, width * 2, width * 4, width * 4]
        layers = []
        for i in range(4):
            layers += [nn.Conv2d(chans[i], chans[i + 1], 3, padding=1, bias=False), nn.BatchNorm2d(chans[i + 1]),
                       nn.ReLU(inplace=True)]
            if i < 3:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(chans[-1], num_classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


def birds(cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    d = cfg["data"]
    proto = torch.randn(d["classes"], 3, d["size"] // 4, d["size"] // 4, generator=g)
    y = torch.randint(0, d["classes"], (d["images"],), generator=g)
    x = F.interpolate(proto, scale_factor=4)[y] + 0.7 * torch.randn(d["images"], 3, d["size"], d["size"], generator=g)
    k = int(0.85 * d["images"])
    return (x[:k], y[:k]), (x[k:], y[k:])


def create_model(cfg):
    model = ConvNet(cfg["model"]["width"], cfg["model"]["pretrained_classes"])
    # stands for torch.hub weights
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.orthogonal_(m.weight)
    if cfg["model"]["freeze_backbone"]:
        for p in model.features.parameters():
            p.requires_grad = False
    return model.to(device)


def create_optimizer(cfg, model):
    o = cfg["optim"]
    params = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.SGD(params, lr=o["lr"], momentum=o["momentum"], weight_decay=o["weight_decay"], nesterov=True)


def adapt_head(model, num_classes):
    if model.fc.out_features != num_classes:
        print(f"=> replacing head {model.fc.out_features} -> {num_classes}")
        model.fc = nn.Linear(model.fc.in_features, num_classes).to(device)
    return model


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    ok, ls = 0, 0.0
    for i in range(0, len(x), 64):
        out = model(x[i:i + 64].to(device))
        t = y[i:i + 64].to(device)
        ls += F.cross_entropy(out, t, reduction="sum").item()
        ok += (out.argmax(1) == t).sum().item()
    return ls / len(x), 100 * ok / len(x)


def main(cfg):
    torch.manual_seed(cfg["seed"])
    (xtr, ytr), (xva, yva) = birds(cfg)
    model = create_model(cfg)
    optimizer = create_optimizer(cfg, model)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg["train"]["epochs"])
    model = adapt_head(model, cfg["data"]["classes"])
    bs = cfg["train"]["batch_size"]
    nb = len(xtr) // bs
    for epoch in range(cfg["train"]["epochs"]):
        model.train()
        perm = torch.randperm(len(xtr))
        meter, t0 = 0.0, time.time()
        for b in range(nb):
            idx = perm[b * bs:(b + 1) * bs]
            xb, yb = xtr[idx].to(device), ytr[idx].to(device)
            if torch.rand(()) < 0.5:
                xb = xb.flip(-1)
            loss = F.cross_entropy(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter += loss.item()
            if (b + 1) % cfg["train"]["log_every"] == 0:
                print(f"Epoch [{epoch}][{b + 1}/{nb}]  Loss {meter / (b + 1):.4f}  lr {scheduler.get_last_lr()[0]:.4f}  "
                      f"{(b + 1) * bs / (time.time() - t0):.0f} img/s", flush=True)
        scheduler.step()
        vl, va = validate(model, xva, yva)
        print(f" * val loss {vl:.4f}  top-1 {va:.2f}", flush=True)


if __name__ == "__main__":
    main(CONFIG)
