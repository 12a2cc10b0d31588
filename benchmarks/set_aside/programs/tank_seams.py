#!/usr/bin/env python
# coding: utf-8
# In[1]:
import os

os.environ["KERAS_BACKEND"] = "torch"
print("weld seams notebook", flush=True)
import keras
import numpy as np
from keras import layers

# In[2]: Bilder laden - eine Klasse nach der anderen, wie die Ordner
KLASSEN = ["gut", "pore", "spritzer", "kerbe", "riss"]
rng = np.random.default_rng(3)


def bild(k):
    img = rng.normal(110, 18, (48, 48))
    mitte = 24 + rng.integers(-5, 6)
    img[mitte - 6:mitte + 6] += 60 + 12 * np.sin(np.arange(48) / 2)
    if k == 1:
        for _ in range(4):
            r, c = rng.integers(mitte - 5, mitte + 4), rng.integers(0, 45)
            img[r:r + 3, c:c + 3] -= 90
    elif k == 2:
        for _ in range(10):
            r, c = rng.integers(0, 46), rng.integers(0, 46)
            img[r:r + 2, c:c + 2] += 90
    elif k == 3:
        img[mitte + 6:mitte + 9] -= 70
    elif k == 4:
        c = rng.integers(4, 44)
        img[:, c:c + 2] -= 80
    return np.clip(img, 0, 255)


X, y = [], []
for k, name in enumerate(KLASSEN):
    for _ in range(900):
        X.append(bild(k))
        y.append(k)
X = np.array(X, "float32")[..., None] / 255.0
y = np.array(y)
print(X.shape, y.shape, np.bincount(y))

# In[3]:
model = keras.Sequential([
    keras.Input((48, 48, 1)),
    layers.Conv2D(16, 3, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu", padding="same"),
    layers.MaxPooling2D(),
    layers.Conv2D(64, 3, activation="relu", padding="same"),
    layers.GlobalAveragePooling2D(),
    layers.Dropout(0.2),
    layers.Dense(64, activation="relu"),
    layers.Dense(len(KLASSEN), activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.summary()

# In[4]:
hist = model.fit(X, y, batch_size=64, epochs=150, validation_split=0.2, shuffle=True, verbose=2)

# In[5]:
print(max(hist.history["val_accuracy"]))
