"""Notas de cata: predice la denominación de origen de un vino tinto a partir de su análisis químico."""
import argparse
import time

import numpy as np
import torch
from torch import nn


def leer_datos(n, clases, semilla=0):
    rng = np.random.default_rng(semilla)
    centros = rng.standard_normal((clases, 32))
    y = rng.integers(0, clases, n)
    x = centros[y] + 0.8 * rng.standard_normal((n, 32))
    return x.astype(np.float32), y


def barajar(*columnas, rng):
    """Baraja todas las columnas antes de cada época."""
    return [columna[rng.permutation(len(columna))] for columna in columnas]


def lotes(x, y, tamano):
    for i in range(0, len(x) - tamano + 1, tamano):
        yield torch.from_numpy(x[i : i + tamano]), torch.from_numpy(y[i : i + tamano])


def entrenar(args):
    x, y = leer_datos(8000, args.clases)
    rng = np.random.default_rng(1)
    torch.manual_seed(0)
    red = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, args.clases))
    optimizador = torch.optim.SGD(red.parameters(), lr=0.02, momentum=0.9)
    inicio = time.time()
    for epoca in range(1, args.epocas + 1):
        x, y = barajar(x, y, rng=rng)
        suma = aciertos = vistos = 0
        for xb, yb in lotes(x, y, args.lote):
            salida = red(xb)
            perdida = nn.functional.cross_entropy(salida, yb)
            optimizador.zero_grad()
            perdida.backward()
            optimizador.step()
            suma += perdida.item() * len(yb)
            aciertos += (salida.argmax(1) == yb).sum().item()
            vistos += len(yb)
        print(f"Época {epoca}/{args.epocas} - pérdida: {suma / vistos:.4f} - exactitud: {aciertos / vistos:.3f} - {time.time() - inicio:.0f} s", flush=True)
        if time.time() - inicio > 210:
            break


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--clases", type=int, default=24)
    p.add_argument("--lote", type=int, default=50)
    p.add_argument("--epocas", type=int, default=500)
    entrenar(p.parse_args())
