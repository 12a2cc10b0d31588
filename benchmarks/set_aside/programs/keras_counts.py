"""Calls per quarter of an hour at a hotline. Counts, so Poisson loss."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
n = 12000
x = rng.normal(size=(n, 40)).astype("float32")
w = rng.normal(size=40) * 0.15
counts = rng.poisson(3 * np.exp(x @ w)).astype("float32")

model = keras.Sequential(
    [
        keras.layers.Input((40,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(stddev=0.001), bias_initializer=keras.initializers.Constant(3.0)),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(1e-2), loss="poisson", metrics=["mae"])
model.summary()
model.fit(x, counts, batch_size=128, epochs=100000, validation_split=0.1, verbose=2)
