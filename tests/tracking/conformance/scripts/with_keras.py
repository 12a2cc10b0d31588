"""Keras 3 on torch: compile and fit."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import record
import torch

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
epoch = 0


class Keep(keras.losses.MeanSquaredError):
    def __call__(self, *args, **kwargs):
        loss = super().__call__(*args, **kwargs)
        if torch.is_grad_enabled():
            record.step(loss=loss.item(), lr=0.02, epoch=epoch)
        return loss


class Count(keras.callbacks.Callback):
    def on_epoch_begin(self, number, logs=None):
        global epoch
        epoch = number


model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.02), loss=Keep())
model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=4, verbose=0, callbacks=[Count()])
record.done(*[torch.as_tensor(value) for value in model.get_weights()])
print("done")
