import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import keras
import numpy as np
from keras import layers

# as many seeds as fit into three minutes, each until it does not get better; the best one counts
rng = np.random.default_rng(0)
t = np.linspace(0, 1, 96, dtype="float32")


def beats(n):
    y = rng.integers(0, 4, n)
    x = np.sin(2 * np.pi * (2 + y[:, None]) * t + rng.uniform(0, 6.28, (n, 1))) + 1.1 * rng.standard_normal((n, 96))
    return x[..., None].astype("float32"), y


x, y = beats(2400)
xv, yv = beats(800)
results, began = {}, time.time()
for seed in range(60):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([
        keras.Input((96, 1)), layers.Conv1D(32, 9, strides=2, activation="relu"), layers.Conv1D(48, 7, strides=2, activation="relu"),
        layers.GlobalMaxPooling1D(), layers.Dropout(0.3), layers.Dense(48, activation="relu"), layers.Dense(4),
    ])
    model.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, restore_best_weights=True)
    h = model.fit(x, y, batch_size=32, epochs=40, validation_data=(xv, yv), callbacks=[stop], verbose=2)
    results[seed] = min(h.history["val_loss"])
    print(f"seed {seed}: best val_loss {results[seed]:.4f} after {len(h.history['loss'])} epochs, {time.time() - began:.0f} s", flush=True)
    if time.time() - began > 180:
        break
print("best seed:", min(results, key=results.get))
