"""Day-ahead power prices as a mixture of Gaussians (mixture density network, Keras on torch)."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import math

import keras
import numpy as np
from keras import layers, ops

HOURS, MIX = 168, 4


def price_history(days=900, seed=3):
    rng = np.random.default_rng(seed)
    h = np.arange(days * 24)
    wind = np.convolve(rng.standard_normal(len(h)), np.ones(30) / 30, "same") * 3
    price = 0.5 * np.sin(2 * np.pi * h / 24) + 0.3 * np.sin(2 * np.pi * h / 168) - 0.35 * wind
    price += 0.05 * rng.standard_normal(len(h))
    spikes = rng.random(len(h)) < 0.02
    price[spikes] += 0.8
    return (price / 3).astype("float32")


def nll(y, params):
    logit, mu, log_s = params[:, :MIX], params[:, MIX : 2 * MIX], ops.clip(params[:, 2 * MIX :], -6.0, 3.0)
    z = (y - mu) / ops.exp(log_s)
    comp = ops.log_softmax(logit, axis=-1) - log_s - 0.5 * z * z - 0.5 * math.log(2 * math.pi)
    return -ops.logsumexp(comp, axis=-1)


class Lines(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch % 25 == 0:
            print(f"batch {batch} loss {logs['loss']:.4f}", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} nll {logs['loss']:.4f} val_nll {logs['val_loss']:.4f}", flush=True)


def main():
    keras.utils.set_random_seed(1)
    p = price_history()
    x = np.lib.stride_tricks.sliding_window_view(p, HOURS)[:-1][..., None]
    y = p[HOURS:, None]
    cut = int(0.85 * len(x))
    print("windows", x.shape, "train", cut, flush=True)
    inp = layers.Input((HOURS, 1))
    h = inp
    for d in (1, 3, 9, 27):
        h = layers.Conv1D(32, 3, dilation_rate=d, padding="causal", activation="relu")(h)
    h = layers.Dense(64, activation="relu")(h[:, -1])
    model = keras.Model(inp, layers.Dense(3 * MIX)(h))
    model.compile(keras.optimizers.Adam(5e-4), loss=nll)
    model.fit(x[:cut], y[:cut], validation_data=(x[cut:], y[cut:]), batch_size=64, epochs=60, verbose=0, callbacks=[Lines()])


if __name__ == "__main__":
    main()
