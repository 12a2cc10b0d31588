# The claims table does not fit into memory: the yearly dumps come in parts, and we fit part by part.
import os

os.environ["KERAS_BACKEND"] = "torch"
print("claims: severity model", flush=True)

import keras
import numpy as np

keras.utils.set_random_seed(0)
PART_ROWS, N_FEATURES = 30000, 30
rule = np.random.default_rng(1)
W1, W2 = rule.normal(0, 1, (N_FEATURES, 14)), rule.normal(0, 0.6, 14)


def read_part(k):
    rng = np.random.default_rng(1000 + k)
    x = rng.normal(0, 1, (PART_ROWS, N_FEATURES))
    y = np.tanh(x @ W1 / 3) @ W2 + rng.normal(0, 0.25, PART_ROWS) + 3
    return x.astype("float32"), y.astype("float32")


model = keras.Sequential(
    [
        keras.Input((N_FEATURES,)),
        keras.layers.Dense(192, activation="relu"),
        keras.layers.Dense(192, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(3e-4, momentum=0.5), loss="mse")
x_test, y_test = read_part(-1)

for part in range(800):
    x, y = read_part(part)
    model.fit(x, y, batch_size=64, epochs=1, verbose=2, shuffle=True)
    if part % 5 == 4:
        print(f"part {part + 1}: test mse {model.evaluate(x_test, y_test, verbose=0):.4f}", flush=True)
    del x, y
