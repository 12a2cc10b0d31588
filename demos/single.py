"""Train a classifier on one GPU: the recipe that all others are compared with.

python demos/single.py --model resnet18 --batch-size 128
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from progress import Printer, Speed, correct


def main() -> None:
    """Train, test after every epoch, save at the end."""
    args = options.parser("Train on one GPU.").parse_args()
    torch.manual_seed(args.seed)
    place = devices.take(0)
    print(f"training on {place}")
    run = gputop.init(name=args.name or f"{args.model}-single", config=vars(args), epochs=args.epochs)
    devices.report(run, place)

    train, test = options.data(args)
    print(f"data: {train.name}, {len(train)} images")
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=500)

    # The model first, then its optimizer: .to() may replace the parameters that the optimizer holds on to.
    model = models.build(args.model).to(place.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

    gputop.watch(model)

    total = options.total_steps(args, len(loader))
    run.fact("progress", {"total_steps": total, "epochs": args.epochs})
    speed, printer, step = Speed(), Printer(), 0
    for epoch in range(args.epochs):
        for images, labels in loader:
            if step == total:
                break
            images, labels = images.to(place.device), labels.to(place.device)
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            samples_per_s = speed.after(len(labels))
            run.log(step=step, loss=loss, lr=args.lr, epoch=epoch, samples_per_s=samples_per_s)
            printer.step(step, total, epoch, loss, samples_per_s)
        right, seen = correct(model, test_loader, place.device)
        run.log(step=step, accuracy=right / seen)
        print(f"epoch {epoch} accuracy {right / seen:.3f}", flush=True)
        if step == total:
            break

    if args.save:
        torch.save(model.state_dict(), args.save)
    run.finish()


if __name__ == "__main__":
    main()
