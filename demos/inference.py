"""Use a trained network: batches without gradients, probabilities by softmax, and the effect of temperature.

python demos/inference.py --checkpoint model.pt         from demos/single.py --save model.pt
python demos/inference.py --temperature 4               trains briefly if there is no checkpoint

softmax(scores / T): T > 1 makes the network less confident, T < 1 more. The order, and so the answer, stays the same.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from progress import Meter

SHOWN = 5


def probabilities(scores: Tensor, temperature: float) -> Tensor:
    """Return softmax(scores / temperature): positive values that sum to 1 in each row."""
    return torch.softmax(scores / temperature, dim=1)


def entropy(chances: Tensor) -> Tensor:
    """Return the uncertainty of each row in bits: 0 for one certain class, 3.3 for ten equal ones."""
    return -(chances * chances.clamp_min(1e-12).log2()).sum(dim=1)


def trained_model(args: argparse.Namespace, place: devices.Place, run: gputop.Run) -> nn.Module:
    """Return the model of ``--checkpoint``, or one trained for ``--steps``."""
    model = models.build(args.model)
    if args.checkpoint is not None:
        # map_location: a checkpoint written on a GPU also loads on a machine without one.
        model.load_state_dict(torch.load(args.checkpoint, map_location="cpu", weights_only=True))
        return model.to(place.device)
    model.to(place.device)
    train, _ = options.data(args)
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    gputop.watch(model, optimizer, loader)
    meter = Meter(run, options.total_steps(args, len(loader)), args.epochs, args.lr)
    for epoch in range(args.epochs):
        for images, labels in loader:
            if meter.done:
                break
            loss = functional.cross_entropy(model(images.to(place.device)), labels.to(place.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.count(loss, len(labels), epoch)
    return model


def main() -> None:
    """Classify the test images, and show some answers at several temperatures."""
    defaults = {"digits": "easy", "steps": 300, "batch_size": 32, "lr": 0.02, "train_samples": 6000}
    parser = options.parser("Use a trained network.", **defaults)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="weights to use (default: train briefly)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the softmax; above 1: less sure, below 1: more sure")
    args = parser.parse_args()
    if not args.temperature > 0:
        parser.error(f"--temperature {args.temperature} is not above 0")
    torch.manual_seed(args.seed)
    place = devices.take(0)
    run = gputop.init(name=args.name or f"{args.model}-inference", config=vars(args))
    devices.report(run, place)
    try:
        model = trained_model(args, place, run)
    except (OSError, RuntimeError) as error:
        raise SystemExit(f"--checkpoint {args.checkpoint} cannot be used: {error}") from None
    if args.save:
        torch.save(model.state_dict(), args.save)

    _, test = options.data(args)
    model.eval()  # batch norm and dropout behave differently in training
    scores, labels = [], []
    started = time.perf_counter()
    with torch.inference_mode():  # keep nothing for a backward pass: less memory, less time
        for images, own_labels in DataLoader(test, batch_size=500):
            scores.append(model(images.to(place.device)).cpu())
            labels.append(own_labels)
    seconds = time.perf_counter() - started
    all_scores, all_labels = torch.cat(scores), torch.cat(labels)
    accuracy = float((all_scores.argmax(1) == all_labels).float().mean())
    print(f"{len(all_labels)} images in {seconds:.2f} s, {len(all_labels) / seconds:.0f} images/s, accuracy {accuracy:.3f}")

    print(f"\n{'':24}" + "".join(f"{digit:>6}" for digit in range(10)))
    for index in range(min(SHOWN, len(all_labels))):
        chances = probabilities(all_scores[index : index + 1], args.temperature)[0]
        line = f"image {index} is {int(all_labels[index])}, answer {int(chances.argmax())}   "
        print(f"{line:24}" + "".join(f"{100 * chance:5.0f}%" for chance in chances.tolist()))
    print()
    for temperature in sorted({0.5, 1.0, 2.0, 4.0, args.temperature}):
        chances = probabilities(all_scores, temperature)
        sure, unsure = float(chances.amax(1).mean()), float(entropy(chances).mean())
        mark = "  <- --temperature" if temperature == args.temperature else ""
        print(f"temperature {temperature:<4g} mean confidence {100 * sure:3.0f} %   mean entropy {unsure:.2f} bits{mark}")
        run.log(temperature=temperature, confidence=sure, entropy_bits=unsure)
    run.log(accuracy=accuracy, images_per_s=len(all_labels) / seconds)
    run.finish()


if __name__ == "__main__":
    main()
