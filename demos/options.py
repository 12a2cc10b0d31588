"""The command-line options that the demos share, and the data chosen by ``--data``."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import models
from digits import Images, drawn_digits
from idx import IdxError, load, notes

TRAIN_COUNT = 20_000


def parser(description: str, **defaults: object) -> argparse.ArgumentParser:
    """Return the shared options; ``defaults`` overrides default values."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    options.add_argument("--model", choices=models.MODELS, default="lenet", help="what to train")
    options.add_argument("--epochs", type=positive, default=50, help="passes over the data")
    options.add_argument("--batch-size", type=positive, default=64, help="samples per step of one process")
    options.add_argument("--lr", type=float, default=0.01, help="learning rate of SGD with momentum 0.9")
    options.add_argument("--steps", type=positive, help="end after this many optimizer steps (default: all epochs)")
    options.add_argument("--data", type=Path, metavar="DIR", help="MNIST or Fashion-MNIST IDX files (default: drawn digits)")
    options.add_argument("--digits", choices=("hard", "easy"), default="hard", help="how distorted the drawn digits are")
    options.add_argument("--train-samples", type=positive, default=TRAIN_COUNT, help="how many images to train on")
    options.add_argument("--seed", type=int, default=0, help="of the weights and of the order of the samples")
    options.add_argument("--save", type=Path, metavar="FILE", help="write the trained model here")
    options.add_argument("--name", help="the run's name in gputop")
    options.set_defaults(**defaults)
    return options


def add_scaling(options: argparse.ArgumentParser, scale_batch: str) -> None:
    """Add the options that scale batch size and learning rate with the number of GPUs; ``scale_batch`` is the default."""
    options.add_argument(
        "--scale-batch",
        choices=("per-gpu", "global"),
        default=scale_batch,
        help="--batch-size is for each GPU (more GPUs, larger global batch), or for all of them together",
    )
    options.add_argument(
        "--scale-lr",
        choices=("none", "linear", "sqrt"),
        default="none",
        help="multiply --lr by global batch / --batch-size, or by its square root",
    )


def add_amp(options: argparse.ArgumentParser) -> None:
    """Add the option for mixed precision."""
    options.add_argument("--amp", action="store_true", help="mixed precision: autocast to bfloat16, or float16 on older GPUs")


def global_batch(args: argparse.Namespace, devices: int) -> int:
    """Return how many samples all GPUs together process per step, according to ``--scale-batch``."""
    return int(args.batch_size * (devices if args.scale_batch == "per-gpu" else 1))


def learning_rate(args: argparse.Namespace, samples: int) -> float:
    """Return ``--lr``, scaled according to ``--scale-lr``; ``samples`` is the number per optimizer step.

    Linear: twice the samples, twice the step. The square root preserves the noise of the step instead.
    """
    growth = samples / args.batch_size
    return float(args.lr * {"none": 1.0, "linear": growth, "sqrt": math.sqrt(growth)}[args.scale_lr])


def data(args: argparse.Namespace) -> tuple[Images, Images]:
    """Return training and test images: IDX files if ``--data`` names them, else digits drawn by the program."""
    if args.data is None:
        # Both sets are the same in every run and on every rank: --seed affects only the model and the sample order.
        easy, count = args.digits == "easy", args.train_samples
        return drawn_digits(count, seed=1, easy=easy), drawn_digits(max(100, count // 10), seed=2, easy=easy)
    try:
        train_name, train_images, train_labels = load(args.data, "train")
        test_name, test_images, test_labels = load(args.data, "t10k")
        unusual = [note for part in ("train", "t10k") for note in notes(args.data, part)]
    except (FileNotFoundError, IdxError) as error:
        raise SystemExit(f"--data {args.data}: {error}") from None
    if os.environ.get("RANK", "0") == "0":
        for note in unusual:
            print(f"note: {note}")
    count = args.train_samples
    return Images(train_name, train_images[:count], train_labels[:count]), Images(test_name, test_images, test_labels)


def total_steps(args: argparse.Namespace, steps_per_epoch: int) -> int:
    """Return how many optimizer steps the run takes: all epochs, or ``--steps`` if that is less."""
    whole: int = args.epochs * steps_per_epoch
    return whole if args.steps is None else min(whole, args.steps)


def positive(text: str) -> int:
    """Return a whole number of at least 1, for argparse.

    Raises:
        argparse.ArgumentTypeError: the number is less than 1.
    """
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value
