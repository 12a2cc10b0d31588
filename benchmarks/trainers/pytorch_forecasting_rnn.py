"""A recurrent network of PyTorch Forecasting, trained and validated by Lightning.

Needs: pytorch_forecasting, lightning, pandas
Loss: sum
"""

import math
import os
import warnings

import lightning
import pandas
import record  # noqa: F401
from pytorch_forecasting import RecurrentNetwork, TimeSeriesDataSet

warnings.simplefilter("ignore")
rows = [{"at": at, "series": str(one), "value": math.sin(at / 5 + one)} for one in range(4) for at in range(60)]
data = TimeSeriesDataSet(
    pandas.DataFrame(rows),
    time_idx="at",
    target="value",
    group_ids=["series"],
    max_encoder_length=10,
    max_prediction_length=5,
    time_varying_unknown_reals=["value"],
)
net = RecurrentNetwork.from_dataset(data, learning_rate=0.01, hidden_size=8, rnn_layers=1)
lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    accumulate_grad_batches=2,
    gradient_clip_val=0.1,
    logger=False,
    enable_checkpointing=False,
    default_root_dir=os.environ["WORK"],
).fit(net, data.to_dataloader(batch_size=23), data.to_dataloader(train=False, batch_size=23))
