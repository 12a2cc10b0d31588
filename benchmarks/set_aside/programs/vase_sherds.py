# coding: utf-8
# Classification of sherds by ware. Converted from sherds_v3.ipynb
import os

os.environ["KERAS_BACKEND"] = "torch"
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers

# In[1]:
print("keras", keras.__version__, "backend", keras.backend.backend())
keras.utils.set_random_seed(11)
ROOT = Path(tempfile.mkdtemp(prefix="sherds_"))
WARES = ["black_glaze", "red_figure", "coarse", "cooking", "amphora"]
N, SIDE = 320, 256

# In[2]: scans as they come from the museum's server, one file per sherd
rng = np.random.default_rng(0)
yy, xx = np.mgrid[0:SIDE, 0:SIDE] / SIDE
wares = rng.integers(0, len(WARES), N)
for i, w in enumerate(wares):
    angle = rng.uniform(0, np.pi)
    tex = np.sin(2 * np.pi * (3 + 3 * w) * (xx * np.cos(angle) + yy * np.sin(angle)))
    im = 120 + 35 * tex[..., None] * np.array([1.0, 0.8, 0.6]) + rng.normal(0, 30, (SIDE, SIDE, 3))
    np.savez_compressed(ROOT / f"sherd_{i:04d}.npz", image=im.clip(0, 255).astype("uint8"))
print(N, "sherds in", ROOT)


# In[3]:
class Sherds(keras.utils.PyDataset):
    """Reads, turns, scales and crops each picture anew."""

    def __init__(self, ids, labels, batch_size=16, side=48, **kwargs):
        super().__init__(**kwargs)
        self.ids, self.labels, self.batch_size, self.side = np.array(ids), labels, batch_size, side
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return len(self.ids) // self.batch_size

    def rotate(self, im, theta):
        # bilinear by hand, no scipy on the cluster
        c, s, h = np.cos(theta), np.sin(theta), im.shape[0]
        gy, gx = np.mgrid[0:h, 0:h] - h / 2
        sy, sx = (c * gy - s * gx + h / 2).clip(0, h - 2), (s * gy + c * gx + h / 2).clip(0, h - 2)
        y0, x0 = sy.astype(int), sx.astype(int)
        fy, fx = (sy - y0)[..., None], (sx - x0)[..., None]
        return (
            im[y0, x0] * (1 - fy) * (1 - fx) + im[y0 + 1, x0] * fy * (1 - fx)
            + im[y0, x0 + 1] * (1 - fy) * fx + im[y0 + 1, x0 + 1] * fy * fx
        )

    def one(self, i):
        im = np.load(ROOT / f"sherd_{i:04d}.npz")["image"].astype("float32") / 255.0
        im = self.rotate(im, self.rng.uniform(-np.pi, np.pi))
        im = im * self.rng.uniform(0.8, 1.2) + self.rng.uniform(-0.1, 0.1)
        k = 192 // self.side
        o = self.rng.integers(20, 44)
        im = im[o : o + 192, o : o + 192].reshape(self.side, k, self.side, k, 3).mean((1, 3))
        return im.astype("float32")

    def __getitem__(self, b):
        ids = self.ids[b * self.batch_size : (b + 1) * self.batch_size]
        return np.stack([self.one(i) for i in ids]), self.labels[ids]

    def on_epoch_end(self):
        self.rng.shuffle(self.ids)


# In[4]:
model = keras.Sequential([
    keras.Input((48, 48, 3)),
    layers.Conv2D(24, 5, padding="same"),
    layers.BatchNormalization(),
    layers.ReLU(),
    layers.MaxPooling2D(),
    layers.Conv2D(48, 3, padding="same"),
    layers.BatchNormalization(),
    layers.ReLU(),
    layers.MaxPooling2D(),
    layers.Conv2D(64, 3, activation="relu", padding="same"),
    layers.GlobalAveragePooling2D(),
    layers.Dropout(0.2),
    layers.Dense(len(WARES)),
])
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(Sherds(range(N), wares), epochs=200, verbose=2)
