"""Which metric is a run's training loss, judging by the names."""

from __future__ import annotations

import pytest

from gputop.losses import is_short_loss, loss_metric


@pytest.mark.parametrize(
    ("names", "loss"),
    [
        (("lr", "ce"), "ce"),
        (("train/nll", "val/nll"), "train/nll"),
        (("train_xent", "acc"), "train_xent"),
        (("cross_entropy",), "cross_entropy"),
        (("ce", "aux_loss"), "aux_loss"),
        (("loss", "nll"), "loss"),
        (("entropy", "policy_entropy", "price", "source"), None),
        (("test_ce",), None),
        (("train_mse", "sec"), "train_mse"),
        (("mae", "mse", "val_mse"), "mse"),
        (("mse", "nll"), "nll"),
        (("recon", "loss/kl"), "loss/kl"),
        (("val_mae", "fid"), None),
        (("val_loss", "ce"), "ce"),
        (("best_mean_loss", "mean_loss"), "mean_loss"),
        (("best_loss", "acc"), "best_loss"),
        (("loss_scale", "train_mse"), "train_mse"),
        (("smooth_l1", "acc"), "smooth_l1"),
        (("l1", "loss"), "loss"),
        (("mape", "val_mape"), "mape"),
        (("total_mse", "train_mse"), "total_mse"),
        (("cls_loss", "loc_loss", "tot_loss"), "tot_loss"),
        (("icl_avg_loss", "joint_avg_loss", "rec_avg_loss"), "joint_avg_loss"),
        (("a_loss", "overall_loss"), "overall_loss"),
        (("entropy_loss", "surrogate_loss", "value_loss"), "surrogate_loss"),
        (("average_loss_entropy", "average_loss_policy"), "average_loss_policy"),
        (("cross_entropy_loss", "z_loss"), "cross_entropy_loss"),
        (("CrossEntropyLoss", "z_loss"), "CrossEntropyLoss"),
        (("entropy_loss",), "entropy_loss"),
        (("GAN_loss/discrim/accuracy_fake", "GAN_loss/discrim/loss", "lr"), "GAN_loss/discrim/loss"),
        (("losses/lr", "losses/accuracy"), None),
        (("recon_psnr", "mae/lr", "ce_acc", "huber_delta"), None),
    ],
)
def test_a_short_name_of_a_loss_counts_where_nothing_is_called_one(names: tuple[str, ...], loss: str | None) -> None:
    assert loss_metric(names) == loss


@pytest.mark.parametrize(
    "name",
    ["ce", "bce", "train/ce", "step_nll", "CE", "crossentropy", "train_mse", "recon", "infonce", "triplet", "l1", "mape"],
)
def test_short_names(name: str) -> None:
    assert is_short_loss(name)
