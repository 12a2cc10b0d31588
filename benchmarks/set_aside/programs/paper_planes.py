"""Keras: which fold is this paper plane? Strong augmentation, because there are few photos."""
import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras import layers, ops

FOLDS, SIZE = 5, 32


def planes(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, FOLDS, n)
    yy, xx = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    x = np.empty((n, SIZE, SIZE, 1), "float32")
    for i, k in enumerate(y):
        a = rng.normal(0, 0.15)
        u, v = np.cos(a) * xx - np.sin(a) * yy, np.sin(a) * xx + np.cos(a) * yy
        width = 0.15 + 0.15 * k
        body = (np.abs(u) < width * (v + 1) / 2) & (np.abs(v) < 0.8)
        x[i, ..., 0] = body * rng.uniform(0.5, 1.0) + rng.normal(0, 0.2, (SIZE, SIZE))
    return x, keras.utils.to_categorical(y, FOLDS)


class Mixed(keras.utils.PyDataset):
    """Mixup with a Beta(0.8, 0.8), and boxes cut out of the picture."""

    def __init__(self, x, y, batch_size=48):
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.x) // self.batch_size

    def __getitem__(self, i):
        a = self.rng.integers(0, len(self.x), self.batch_size)
        b = self.rng.permutation(a)
        lam = self.rng.beta(0.8, 0.8, self.batch_size).astype("float32")
        x = lam[:, None, None, None] * self.x[a] + (1 - lam)[:, None, None, None] * self.x[b]
        y = lam[:, None] * self.y[a] + (1 - lam)[:, None] * self.y[b]
        for j in range(self.batch_size):
            r, c = self.rng.integers(0, SIZE - 10, 2)
            x[j, r : r + 10, c : c + 10] = 0
        return x, y


keras.utils.set_random_seed(3)
x_train, y_train = planes(2400, 1)
x_val, y_val = planes(600, 2)

model = keras.Sequential(
    [
        keras.Input((SIZE, SIZE, 1)),
        layers.GaussianNoise(0.2),
        layers.Conv2D(24, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(96, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(FOLDS, activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.AdamW(7e-4, weight_decay=1e-3), loss="categorical_crossentropy", metrics=["accuracy"])
print("parameters", model.count_params(), "train", x_train.shape, "val", x_val.shape, ops.shape(x_val), flush=True)
model.fit(Mixed(x_train, y_train), validation_data=(x_val, y_val), epochs=300, verbose=2)
