"""City noise maps: level in dB(A) per grid cell from traffic and buildings. Keras 3 on torch.

On the server with two devices:  torchrun --nproc-per-node=2 noise_maps.py
"""
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

rank = int(os.environ.get("LOCAL_RANK", 0))
world = int(os.environ.get("WORLD_SIZE", 1))
print(f"[{rank}] noise maps, {world} process(es), backend {keras.backend.backend()}", flush=True)
BATCH = 32


def city(n=4000, side=24, seed=0):
    rng = np.random.default_rng(seed)
    roads = np.zeros((n, side, side), "float32")
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            if rng.random() < 0.5:
                roads[i, rng.integers(side)] += rng.uniform(0.3, 1)
            else:
                roads[i, :, rng.integers(side)] += rng.uniform(0.3, 1)
    walls = (rng.random((n, side, side)) < 0.2).astype("float32")
    level = np.zeros_like(roads)
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            level += np.roll(roads, (dy, dx), (1, 2)) / (1 + dy * dy + dx * dx)
    level = np.log1p(level) * (1 - 0.5 * walls) + rng.normal(0, 0.05, roads.shape)
    return np.stack([roads, walls], -1), level[..., None].astype("float32")


def build():
    inp = keras.Input((24, 24, 2))
    x = inp
    for width in (32, 48, 48):
        x = layers.Conv2D(width, 5, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
    return keras.Model(inp, layers.Conv2D(1, 1)(x))


class Prints(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 20 == 0:
            print(f"[{rank}] batch {batch} loss {logs['loss']:.5f} mae {logs['mae']:.4f}", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print(f"[{rank}] epoch {epoch + 1} " + " ".join(f"{k} {v:.5f}" for k, v in logs.items()), flush=True)


x, y = city()
model = build()
model.compile(keras.optimizers.Adam(5e-4), loss="mse", metrics=["mae"])
model.fit(x, y, batch_size=BATCH, epochs=40, verbose=0, validation_split=0.05, callbacks=[Prints()])
