#!/usr/bin/env python
# coding: utf-8

# # Stone types from the conveyor camera
# exported from quarry_stones.ipynb

# In[1]:
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(3)
TYPES = ["basalt", "gneiss", "granite", "limestone", "slate"]
PER_TYPE = 420


# In[2]:
def photos_of(k, n, rng):
    """One folder per type, as the camera writes them."""
    yy, xx = np.mgrid[0:32, 0:32]
    a = k * np.pi / len(TYPES)
    out = []
    for _ in range(n):
        phase, f = rng.uniform(0, 6.28), rng.uniform(0.55, 0.75)
        veins = np.sin(f * (xx * np.cos(a) + yy * np.sin(a)) + phase)
        out.append(0.5 + 0.2 * veins + 0.6 * rng.standard_normal((32, 32)))
    return np.stack(out)


rng = np.random.default_rng(11)
X, y = [], []
for k, name in enumerate(TYPES):
    imgs = photos_of(k, PER_TYPE, rng)
    X.append(imgs)
    y += [k] * len(imgs)
    print(name, len(imgs))
X = np.concatenate(X)[..., None].astype("float32")
y = np.array(y)
print(X.shape, y.shape)

# In[3]:
model = keras.Sequential([
    layers.Input((32, 32, 1)),
    layers.Conv2D(16, 5, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Conv2D(48, 3, activation="relu", padding="same"),
    layers.GlobalAveragePooling2D(),
    layers.Dropout(0.3),
    layers.Dense(len(TYPES), activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()

# In[4]:
history = model.fit(X, y, validation_split=0.2, epochs=400, batch_size=32, shuffle=True, verbose=2)

# In[5]:
print("best val_accuracy", max(history.history["val_accuracy"]))
