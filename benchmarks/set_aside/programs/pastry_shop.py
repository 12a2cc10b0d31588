#!/usr/bin/env python
# coding: utf-8
# In[1]:
import os

os.environ["KERAS_BACKEND"] = "torch"
import numpy as np

import keras
from keras import layers

print("keras", keras.__version__, "backend", keras.backend.backend(), flush=True)
keras.utils.set_random_seed(4)
SORTEN = ["croissant", "brezel", "krapfen", "strudel", "eclair", "semmel"]

# In[2]: stand-in for the shop's pictures, one folder per kind


def read_folder(label, n, rng):
    shape = np.random.default_rng(label).normal(0, 1, (8, 8, 3))
    x = shape.repeat(6, 0).repeat(6, 1)[None] * 9
    x = x + rng.normal(0, 55, (n, 48, 48, 3)) + rng.normal(120, 20, (n, 1, 1, 1))
    return np.clip(x, 0, 255).astype("uint8")


# In[3]:
rng = np.random.default_rng(10)
X, Y = [], []
for label, sorte in enumerate(SORTEN):
    pictures = read_folder(label, 480, rng)
    print(f"{sorte}: {len(pictures)} pictures")
    X.append(pictures)
    Y += [label] * len(pictures)
X = np.concatenate(X).astype("float32") / 255
Y = np.array(Y)

# In[4]:
model = keras.Sequential(
    [
        layers.Input((48, 48, 3)),
        layers.Conv2D(24, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu", padding="same"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(96, activation="relu"),
        layers.Dropout(0.4),
        layers.Dense(len(SORTEN), activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()

# In[5]:
history = model.fit(X, Y, batch_size=32, epochs=150, validation_split=0.2, shuffle=True, verbose=2)

# In[6]:
print("best val_accuracy", max(history.history["val_accuracy"]))
