"""Keras on torch: compile, and fit with a validation after each epoch."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from said import say

keras.utils.set_random_seed(1)
X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
losses = []


class Noting(keras.losses.MeanSquaredError):
    def __call__(self, *args, **kwargs):
        loss = super().__call__(*args, **kwargs)
        if torch.is_grad_enabled():
            losses.append(float(loss))
        return loss


model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss=Noting())
history = model.fit(X, Y, batch_size=8, epochs=30, verbose=0, validation_data=(X[:8], Y[:8]))
say(len(losses), [model], loss=losses, val_loss=history.history["val_loss"])
