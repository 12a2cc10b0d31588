# Clasificador de caries en radiografías periapicales (piloto, 3 clases)
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

TAM = 96
CLASES = 3


class Radiografias(Dataset):
    """Las imágenes caben en memoria: se leen una vez y se aumentan al vuelo."""

    def __init__(self, n, semilla, aumentar):
        g = torch.Generator().manual_seed(semilla)
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, TAM), torch.linspace(-1, 1, TAM), indexing="ij")
        self.y = torch.randint(0, CLASES, (n,), generator=g)
        imgs = []
        for clase in self.y.tolist():
            cx, cy = (torch.rand(2, generator=g) - 0.5).tolist()
            diente = torch.exp(-((xx / 0.5) ** 4) - (yy / 0.8) ** 4)
            radio = 0.06 + 0.09 * clase
            mancha = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * radio**2))
            imgs.append(diente - 0.8 * mancha + 0.25 * torch.randn(TAM, TAM, generator=g))
        self.x = torch.stack(imgs)[:, None]
        self.aumentar = aumentar

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if self.aumentar:
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            x = torch.roll(x, (int(torch.randint(-6, 7, ())), int(torch.randint(-6, 7, ()))), (1, 2))
            x = x * (0.9 + 0.2 * torch.rand(())) + 0.05 * torch.randn_like(x)
        return x, self.y[i]


class Bloque(nn.Module):
    def __init__(self, c1, c2, paso):
        super().__init__()
        self.a = nn.Conv2d(c1, c2, 3, paso, 1, bias=False)
        self.b = nn.Conv2d(c2, c2, 3, 1, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(c2), nn.BatchNorm2d(c2)
        self.atajo = nn.Conv2d(c1, c2, 1, paso, bias=False)

    def forward(self, x):
        h = F.relu(self.n1(self.a(x)))
        return F.relu(self.n2(self.b(h)) + self.atajo(x))


def main():
    torch.manual_seed(7)
    dispositivo = "cuda" if torch.cuda.is_available() else "cpu"
    entreno, prueba = Radiografias(256, 1, True), Radiografias(64, 2, False)
    # con fork se colgaba en el servidor (opencv), así que spawn
    comun = dict(num_workers=2, multiprocessing_context="spawn")
    dl_entreno = DataLoader(entreno, batch_size=16, shuffle=True, **comun)
    dl_prueba = DataLoader(prueba, batch_size=32, **comun)

    red = nn.Sequential(
        nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), Bloque(16, 32, 1), Bloque(32, 64, 2), Bloque(64, 96, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, CLASES),
    ).to(dispositivo)
    opt = torch.optim.AdamW(red.parameters(), lr=3e-4, weight_decay=0.05)
    print("imágenes:", len(entreno), "/", len(prueba), " parámetros:", sum(p.numel() for p in red.parameters()))

    for epoca in range(1, 101):
        red.train()
        suma = 0.0
        for x, y in dl_entreno:
            x, y = x.to(dispositivo), y.to(dispositivo)
            perdida = F.cross_entropy(red(x), y)
            opt.zero_grad()
            perdida.backward()
            opt.step()
            suma += perdida.item() * len(y)
        red.eval()
        bien = 0
        with torch.no_grad():
            for x, y in dl_prueba:
                bien += (red(x.to(dispositivo)).argmax(1).cpu() == y).sum().item()
        print(f"Época {epoca:3d}  loss {suma / len(entreno):.4f}  acc {bien / len(prueba):.3f}")


if __name__ == "__main__":
    main()
