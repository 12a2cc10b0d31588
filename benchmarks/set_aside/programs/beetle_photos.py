# %% [markdown]
# Beetles from the pitfall traps, 6 genera. Keras on top of torch because the cluster has no tensorflow.

# %%
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

print("keras", keras.__version__, "backend", keras.backend.backend())
rng = np.random.default_rng(3)
keras.utils.set_random_seed(3)
SIZE, N_CLASSES = 48, 6


# %%
def photos(n):
    """Dark beetles on pale paper; genus = proportions and stripes."""
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
    x = np.empty((n, SIZE, SIZE, 3), np.uint8)
    y = rng.integers(0, N_CLASSES, n)
    for i, genus in enumerate(y):
        turn = rng.uniform(-0.4, 0.4)
        u, v = xx * np.cos(turn) + yy * np.sin(turn), yy * np.cos(turn) - xx * np.sin(turn)
        u, v = u - rng.uniform(-0.2, 0.2), v - rng.uniform(-0.2, 0.2)
        width = 0.28 + 0.12 * (genus % 3)
        body = np.clip(8 * (1 - (u / width) ** 2 - (v / 0.65) ** 2), 0, 1)
        stripes = 0.5 + 0.5 * np.sin(v * (9 if genus < 3 else 22))
        paper = np.array([200, 192, 175]) + rng.normal(0, 10, 3)
        shell = np.array([70, 52, 35]) + 70 * stripes[..., None]
        img = paper * (1 - body[..., None]) + shell * body[..., None] + rng.normal(0, 22, (SIZE, SIZE, 3))
        x[i] = np.clip(img, 0, 255)
    return x, y


x_train, y_train = photos(3000)
x_val, y_val = photos(600)
print(x_train.shape, x_val.shape)

# %%
# per-channel standardisation
x_train = x_train.astype("float32")
mean = x_train.mean(axis=(0, 1, 2))
std = x_train.std(axis=(0, 1, 2))
x_train = (x_train - mean) / std
x_val = x_val.astype("float32")

# %%
model = keras.Sequential(
    [
        layers.Input((SIZE, SIZE, 3)),
        layers.Conv2D(24, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2),
        layers.Dense(N_CLASSES, activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()

# %%
history = model.fit(x_train, y_train, batch_size=50, epochs=80, validation_data=(x_val, y_val), verbose=2)
