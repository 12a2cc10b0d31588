"""Probabilistic crop yields: Keras on torch, a Gaussian head, negative log-likelihood, learning rate on plateau."""
import os

os.environ["KERAS_BACKEND"] = "torch"
print("crop yields, probabilistic", flush=True)

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)


def parcels(n):
    weather = rng.normal(size=(n, 36, 4)).astype("float32")
    weather = np.cumsum(weather, 1) / 6
    soil = rng.normal(size=(n, 8)).astype("float32")
    rain, heat = weather[:, 10:20, 0].mean(1), weather[:, 20:30, 1].max(1)
    mean = 0.25 * np.tanh(rain) - 0.15 * np.maximum(heat - 0.5, 0) + 0.1 * soil[:, 0] * soil[:, 1]
    std = 0.02 + 0.04 / (1 + np.exp(-2 * soil[:, 2]))
    return [weather, soil], (mean + std * rng.normal(size=n)).astype("float32")[:, None]


def nll(y, p):
    mu, log_s = p[:, :1], ops.clip(p[:, 1:], -6.0, 3.0)
    return ops.mean(log_s + 0.5 * ops.square((y - mu) / ops.exp(log_s)))


class Report(keras.callbacks.Callback):
    def __init__(self, every=10):
        super().__init__()
        self.every = every

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every == 0:
            print(f"batch {batch} loss {logs['loss']:.4f}", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} " + " ".join(f"{k}={float(v):.4g}" for k, v in logs.items()), flush=True)


w = keras.Input((36, 4))
s = keras.Input((8,))
h = layers.Conv1D(48, 5, padding="same", activation="relu")(w)
h = layers.Conv1D(64, 5, padding="same", activation="relu")(h)
h = layers.Concatenate()([layers.GlobalAveragePooling1D()(h), layers.GlobalMaxPooling1D()(h), s])
h = layers.Dense(128, activation="relu")(h)
h = layers.Dense(64, activation="relu")(h)
model = keras.Model([w, s], layers.Dense(2)(h))
model.compile(keras.optimizers.Adam(1e-3), loss=nll)
x, y = parcels(16000)
xv, yv = parcels(2000)
model.fit(x, y, validation_data=(xv, yv), batch_size=128, epochs=300, verbose=0,
          callbacks=[Report(), keras.callbacks.ReduceLROnPlateau(patience=6, factor=0.5, min_lr=1e-5)])
