# -*- coding: utf-8 -*-
# Clasificación de hojas de limonero: sana, clorosis, minador
import os
import tempfile

import h5py
import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASES = ("sana", "clorosis", "minador")
N_IMAGENES = 480
TAM = 48


def crear_h5(ruta):
    rng = np.random.default_rng(11)
    yy, xx = np.mgrid[0:TAM, 0:TAM] / TAM
    with h5py.File(ruta, "w") as f:
        x = f.create_dataset("hojas", (N_IMAGENES, 3, TAM, TAM), dtype="f4")
        y = f.create_dataset("clase", (N_IMAGENES,), dtype="i8")
        for i in range(N_IMAGENES):
            c = int(rng.integers(0, 3))
            img = np.stack([0.2 + 0 * xx, 0.6 + 0 * xx, 0.15 + 0 * xx])
            if c == 1:
                img[0] += 0.25 * (np.hypot(xx - 0.5, yy - 0.5) > rng.uniform(0.2, 0.4))
            if c == 2:
                img[:2] += 0.25 * (np.abs(np.sin(8 * xx + rng.uniform(0, 6)) * 0.3 + 0.5 - yy) < 0.05)
            x[i] = img + rng.normal(0, 0.15, img.shape)
            y[i] = c


class HojasDataset(Dataset):
    def __init__(self, ruta):
        self.ruta = ruta
        self.h5 = None

    def __len__(self):
        return N_IMAGENES

    def __getitem__(self, i):
        if self.h5 is None:  # cada worker abre su propio fichero
            self.h5 = h5py.File(self.ruta, "r")
        img = torch.from_numpy(self.h5["hojas"][i])
        if torch.rand(()) < 0.5:
            img = img.flip(-1)
        return img, int(self.h5["clase"][i])


class Clasificador(L.LightningModule):
    def __init__(self, lr=5e-4):
        super().__init__()
        self.save_hyperparameters()
        self.red = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, len(CLASES)),
        )  # fmt: skip

    def training_step(self, batch, _):
        x, y = batch
        logits = self.red(x)
        loss = F.cross_entropy(logits, y)
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=False)
        return loss

    def on_train_epoch_end(self):
        print(f"\nepoca {self.current_epoch}: loss={self.trainer.callback_metrics['loss']:.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    L.seed_everything(1)
    carpeta = tempfile.TemporaryDirectory(prefix="limones")
    ruta = os.path.join(carpeta.name, "hojas.h5")
    crear_h5(ruta)
    print("datos en", ruta, flush=True)
    # con fork h5py se quedaba colgado, por eso spawn
    loader = DataLoader(
        HojasDataset(ruta), batch_size=32, shuffle=True, num_workers=1, multiprocessing_context="spawn"
    )
    trainer = L.Trainer(
        max_epochs=300,
        accelerator="auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        default_root_dir=carpeta.name,
        log_every_n_steps=5,
    )
    trainer.fit(Clasificador(), loader)
