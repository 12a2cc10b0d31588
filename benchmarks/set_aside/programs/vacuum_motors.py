"""Denoising autoencoder for the end-of-line test of vacuum motors (Keras on torch), with a triangular learning rate."""
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(21)
SPECTRUM = 256


def spectra(n, seed):
    rng = np.random.default_rng(seed)
    f = np.arange(SPECTRUM)
    out = np.zeros((n, SPECTRUM), "float32")
    for k in range(1, 6):
        centre = k * rng.uniform(32, 42, n)[:, None]
        out += rng.uniform(0.3, 1.2, n)[:, None] / k * np.exp(-(((f - centre) / (2 + k)) ** 2))
    return out + rng.normal(0, 0.02, out.shape).astype("float32")


def triangle(epoch, _):
    low, high, half = 2e-4, 2e-3, 6
    return low + (high - low) * (1 - abs(epoch % (2 * half) - half) / half)


inputs = keras.Input((SPECTRUM,))
x = layers.GaussianNoise(0.3)(inputs)
for units in (512, 256):
    x = layers.Dense(units, activation="gelu")(x)
    x = layers.Dropout(0.25)(x)
code = layers.Dense(16)(x)
x = code
for units in (256, 512):
    x = layers.Dense(units, activation="gelu")(x)
outputs = layers.Dense(SPECTRUM)(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-4), loss="mse")
model.summary(print_fn=lambda s, **_: print(s, flush=True))
data = spectra(24000, 0)
model.fit(
    data, data, validation_data=(spectra(1500, 1),) * 2, batch_size=64, epochs=400, verbose=2,
    callbacks=[keras.callbacks.LearningRateScheduler(triangle)],
)
