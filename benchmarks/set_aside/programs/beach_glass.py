#!/usr/bin/env python
# coding: utf-8

# # Sea glass or stone?
# Six kinds of finds from the beach, small photos.

# In[1]:

import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from keras import layers

print("keras", keras.__version__, keras.backend.backend(), flush=True)
keras.utils.set_random_seed(5)

# In[2]:

KINDS = ["green glass", "brown glass", "white glass", "pebble", "shell", "brick"]
COLORS = np.array([[90, 160, 110], [130, 90, 50], [190, 200, 200], [120, 120, 125], [215, 190, 170], [170, 80, 60]])
SIZE = 32


def photos(n, rng):
    y = rng.integers(0, len(KINDS), n)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    x = np.empty((n, SIZE, SIZE, 3), dtype="uint8")
    for i, k in enumerate(y):
        sand = rng.normal([180, 165, 130], 25, (SIZE, SIZE, 3))
        cx, cy = rng.uniform(11, 21, 2)
        r = rng.uniform(6, 11)
        mask = ((xx - cx) ** 2 + (yy - cy) ** 2 < r**2)[..., None]
        light = rng.uniform(0.7, 1.2)
        thing = COLORS[k] * light + rng.normal(0, 30, (SIZE, SIZE, 3))
        if k == 4:
            thing += 25 * np.sin(xx + yy)[..., None]
        x[i] = np.clip(np.where(mask, thing, sand), 0, 255).astype("uint8")
    return x, y.astype("int64")


rng = np.random.default_rng(0)
x_train, y_train = photos(3200, rng)
x_val, y_val = photos(800, rng)
print(x_train.shape, x_train.dtype, x_val.shape, x_val.dtype, flush=True)

# In[3]:


class Finds(keras.utils.PyDataset):
    """Batches with flips, scaled to [-1, 1]."""

    def __init__(self, x, y, batch_size=64, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size = x, y, batch_size
        self.order = np.random.permutation(len(x))

    def __len__(self):
        return len(self.x) // self.batch_size

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size : (i + 1) * self.batch_size]
        x = self.x[rows].astype("float32") / 127.5 - 1.0
        if np.random.rand() < 0.5:
            x = x[:, :, ::-1]
        return np.ascontiguousarray(x), self.y[rows]

    def on_epoch_end(self):
        self.order = np.random.permutation(len(self.x))


# In[4]:

model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 3)),
        layers.Conv2D(24, 3, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(len(KINDS)),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.summary()

# In[5]:

history = model.fit(
    Finds(x_train, y_train),
    validation_data=(x_val.astype("float32"), y_val),
    epochs=150,
    verbose=2,
)
