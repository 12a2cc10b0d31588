"""Train a classifier on one GPU: the baseline for all other recipes.

python demos/single.py --model resnet18 --batch-size 128 --amp
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from precision import Precision
from progress import Meter, correct


def main() -> None:
    """Train, test after every epoch, save at the end."""
    parser = options.parser("Train on one GPU.")
    options.add_amp(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    place = devices.take(0)
    print(f"training on {place}")
    run = gputop.init(name=args.name or f"{args.model}-single", config=vars(args), epochs=args.epochs)
    devices.report(run, place)

    train, test = options.data(args)
    print(f"data: {train.name}, {len(train)} images")
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=500)

    # Move the model first, then create its optimizer: .to() may replace the parameters that the optimizer refers to.
    model = models.build(args.model).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    precision = Precision(place.device, args.amp)

    gputop.watch(model, optimizer, loader)

    meter = Meter(run, options.total_steps(args, len(loader)), args.epochs, args.lr)
    for epoch in range(args.epochs):
        for images, labels in loader:
            if meter.done:
                break
            images, labels = images.to(place.device), labels.to(place.device)
            with precision.autocast():
                loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            precision.backward(loss)
            precision.step(optimizer)
            meter.count(loss, len(labels), epoch)
        right, seen = correct(model, test_loader, place.device)
        meter.tested(epoch, right / seen)
        if meter.done:
            break

    if args.save:
        torch.save(model.state_dict(), args.save)
    run.finish()


if __name__ == "__main__":
    main()
