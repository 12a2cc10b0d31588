"""BPR of RecBole by its trainer, evaluated after each epoch, on ratings that it reads from a file.

Needs: recbole
Loss: sum
"""

import os
import random
import sys

import record  # noqa: F401

place = os.environ["WORK"] + "/data/small"
os.makedirs(place)
chance = random.Random(0)
with open(place + "/small.inter", "w") as file:
    file.write("user_id:token\titem_id:token\trating:float\ttimestamp:float\n")
    for number in range(600):
        file.write(f"{chance.randrange(30)}\t{chance.randrange(40)}\t{chance.randrange(1, 6)}\t{number}\n")
sys.argv = sys.argv[:1]
os.chdir(os.environ["WORK"])
from recbole.config import Config  # noqa: E402 - it reads its folder and the arguments
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.model.general_recommender import BPR  # noqa: E402
from recbole.trainer import Trainer  # noqa: E402
from recbole.utils import init_seed  # noqa: E402

config = Config(
    model="BPR",
    dataset="small",
    config_dict={
        "data_path": os.environ["WORK"] + "/data",
        "epochs": 3,
        "train_batch_size": 64,
        "use_gpu": False,
        "gpu_id": "",
        "show_progress": False,
        "checkpoint_dir": os.environ["WORK"],
        "embedding_size": 8,
    },
)
init_seed(config["seed"], config["reproducibility"])
train, valid, test = data_preparation(config, create_dataset(config))
trainer = Trainer(config, BPR(config, train.dataset).to(config["device"]))
trainer.fit(train, valid, saved=False, show_progress=False)
