# Demand forecast per locker station, v2 (keras 3)
import os

os.environ["KERAS_BACKEND"] = "torch"

print("parcel locker demand, loading ...", flush=True)

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(5)
N_STATIONS = 120


def load_table(n):
    rng = np.random.default_rng(3)
    station = rng.integers(0, N_STATIONS, n)
    weight = rng.uniform(0.4, 3.0, N_STATIONS)
    households = rng.normal(4200, 900, n)
    temp = rng.normal(11, 8, n)
    dist = rng.gamma(3.0, 700.0, n)
    hour = rng.integers(0, 24, n).astype("float64")
    promo = rng.integers(0, 2, n).astype("float64")
    fill = rng.uniform(0, 100, n)
    orders = rng.poisson(320, n).astype("float64")
    y = weight[station] * (
        2
        + np.sin(hour / 24 * 2 * np.pi)
        + 0.8 * (orders - 320) / 18
        + 0.5 * promo * (temp < 5)
        + 0.6 * np.tanh((households - 4200) / 900)
        - 0.4 * np.sqrt(dist / 2100)
    ) + rng.normal(0, 0.3, n)
    x = np.stack([households, temp, dist, hour, promo, fill, orders], 1)
    return station.astype("int32"), x.astype("float32"), y.astype("float32")


station, x, y = load_table(36000)
cut = int(len(x) * 0.8)
s_train, s_val = station[:cut], station[cut:]
x_train, x_val = x[:cut], x[cut:]
y_train, y_val = y[:cut], y[cut:]

# standardise
mu, sd = x_train.mean(0), x_train.std(0)
x_train = (x_train - mu) / sd

inp_s = keras.Input((), dtype="int32", name="station")
inp_x = keras.Input((x.shape[1],), name="features")
emb = layers.Embedding(N_STATIONS, 12)(inp_s)
h = layers.Concatenate()([emb, inp_x])
for units in (256, 256, 128):
    h = layers.Dense(units, activation="relu")(h)
    h = layers.Dropout(0.05)(h)
out = layers.Dense(1)(h)
model = keras.Model([inp_s, inp_x], out)
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="mse", metrics=["mae"])
model.summary()

history = model.fit(
    [s_train, x_train],
    y_train,
    validation_data=([s_val, x_val], y_val),
    batch_size=128,
    epochs=400,
    verbose=2,
)
print("best val_mae", min(history.history["val_mae"]))
