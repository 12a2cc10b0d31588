import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import argparse
import time

import keras
import numpy as np
from keras import layers

p = argparse.ArgumentParser("Topics of headlines (own crawl, 120 topics)")
p.add_argument("--epochs", type=int, default=400)
p.add_argument("--lr", type=float, default=0.01)
p.add_argument("--vocab", type=int, default=4000)
a = p.parse_args()
keras.utils.set_random_seed(3)


def headlines(n, topics=120, length=16):
    rng = np.random.default_rng(n)
    y = rng.integers(0, topics, n)
    words = rng.integers(0, a.vocab, (n, length))
    own = 30 * y[:, None] + rng.integers(0, 30, (n, length))
    return np.where(rng.random((n, length)) < 0.4, own, words).astype("int32"), y.astype("int32")


x, y = headlines(3840)
xv, yv = headlines(960)

inp = keras.Input((16,), dtype="int32")
h = layers.Embedding(a.vocab, 64)(inp)
h = layers.Bidirectional(layers.GRU(32))(h)
h = layers.Dense(128, activation="relu")(h)
out = layers.Dense(120, activation="softmax")(h)
model = keras.Model(inp, out)
model.compile(
    optimizer=keras.optimizers.SGD(a.lr, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.summary()
class Limit(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.began = time.time()

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training |= time.time() - self.began > 210


model.fit(x, y, batch_size=128, epochs=a.epochs, validation_data=(xv, yv), validation_freq=5, verbose=2, callbacks=[Limit()])
model.save_weights(os.path.join(os.environ.get("TMPDIR", "/tmp"), f"topics-{os.getpid()}.weights.h5"))
os.remove(os.path.join(os.environ.get("TMPDIR", "/tmp"), f"topics-{os.getpid()}.weights.h5"))
