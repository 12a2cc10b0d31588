"""Train on all GPUs of one process with nn.DataParallel: one line more than on one GPU.

python demos/data_parallel.py --batch-size 128

Each step cuts the batch into one piece for each GPU. DistributedDataParallel (ddp.py) is faster, because every GPU has
a process of its own; nn.DataParallel is what one meets in older code.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

import devices
import gputop
import models
import options
from cpu_data_parallel import CpuDataParallel
from progress import Printer, Speed, correct


def main(**defaults: object) -> None:
    """Train, test after every epoch, save at the end; ``defaults`` replaces defaults of the options."""
    description = "Train on all GPUs of one process."
    args = options.parser(description, **{"batch_size": 128, "name": None, **defaults}).parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    run = gputop.init(name=args.name or f"{args.model}-data-parallel", config=vars(args), epochs=args.epochs)

    model = models.build(args.model)
    parallel: nn.DataParallel[nn.Module] | CpuDataParallel
    if torch.cuda.is_available():
        device = torch.device("cuda", 0)  # the master copy lives on GPU 0: the others get theirs at every step
        parallel = nn.DataParallel(model.to(device))
    else:
        device = torch.device("cpu")
        parallel = CpuDataParallel(model, devices.virtual_places())
        devices.report_threads(run, parallel.claims())
        print("no CUDA: nn.DataParallel would do nothing here, so the engine of cpu_data_parallel.py takes its place")
    print(f"training on {devices.count()} devices, {args.batch_size} samples a step")
    optimizer = torch.optim.SGD(parallel.parameters(), lr=args.lr, momentum=0.9)

    gputop.watch(parallel)

    train, test = options.data(args)
    print(f"data: {train.name}, {len(train)} images")
    # The batch is for all GPUs together: each gets batch_size / count samples.
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, batch_size=500)

    total = options.total_steps(args, len(loader))
    run.fact("progress", {"total_steps": total, "epochs": args.epochs})
    speed, printer, step = Speed(), Printer(), 0
    for epoch in range(args.epochs):
        for images, labels in loader:
            if step == total:
                break
            images, labels = images.to(device), labels.to(device)
            loss = functional.cross_entropy(parallel(images), labels)  # call the wrapper, never parallel.module
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            samples_per_s = speed.after(len(labels))
            run.log(step=step, loss=loss, lr=args.lr, epoch=epoch, samples_per_s=samples_per_s)
            printer.step(step, total, epoch, loss, samples_per_s)
            if step == 1 and isinstance(parallel, CpuDataParallel):
                devices.report_threads(run, parallel.claims())  # again: now it is known what each replica holds
        right, seen = correct(parallel, test_loader, device)
        run.log(step=step, accuracy=right / seen)
        print(f"epoch {epoch} accuracy {right / seen:.3f}", flush=True)
        if step == total:
            break

    if args.save:
        torch.save(parallel.module.state_dict(), args.save)  # of the module: the wrapper's keys begin with "module."
    run.finish()


if __name__ == "__main__":
    main()
