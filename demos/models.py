"""The models that the demos train, written by hand: LeNet, ResNet-18, ResNet-101, and FooNet, which prints its batch size."""

from __future__ import annotations

import sys
import threading

import torch
from torch import Tensor, nn


class LeNet(nn.Sequential):
    """LeNet-5 for 28x28 gray images, with modern ReLU and max pooling: 62 thousand parameters."""

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(channels, 6, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),  # 28 -> 14
            nn.Conv2d(6, 16, kernel_size=5),  # 14 -> 10
            nn.ReLU(),
            nn.MaxPool2d(2),  # 10 -> 5
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them: the output is ``relu(F(x) + x)``."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        # Where the shape changes, the shortcut needs a 1x1 convolution to match it.
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, H/stride, W/stride]."""
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut around them: the 3x3 works on a quarter of the channels."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = outputs // 4
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, H/stride, W/stride]."""
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        return torch.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet: a stem, four stages of blocks, average pooling, one linear layer.

    ``small_images`` chooses the stem: a 3x3 convolution that keeps the size (28x28 or 32x32 images), or the paper's 7x7
    convolution with stride 2 and pooling (224x224 images).
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        stages: tuple[int, int, int, int],
        channels: int = 3,
        classes: int = 1000,
        small_images: bool = False,
    ) -> None:
        super().__init__()
        if small_images:
            stem: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        else:
            stem = [nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
            stem.append(nn.MaxPool2d(3, 2, padding=1))
        self.stem = nn.Sequential(*stem)
        blocks: list[nn.Module] = []
        inputs, widths = 64, (64, 128, 256, 512) if block is BasicBlock else (256, 512, 1024, 2048)
        for outputs, number, stride in zip(widths, stages, (1, 2, 2, 2), strict=True):
            blocks += [block(inputs, outputs, stride)]
            blocks += [block(outputs, outputs, 1) for _ in range(number - 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to scores [N, classes]."""
        scores: Tensor = self.head(self.blocks(self.stem(x)))
        return scores


class ResNet18(ResNet):
    """ResNet-18: two plain blocks per stage, 11 million parameters."""

    def __init__(self, channels: int = 3, classes: int = 1000, small_images: bool = False) -> None:
        super().__init__(BasicBlock, (2, 2, 2, 2), channels, classes, small_images)


class ResNet101(ResNet):
    """ResNet-101: 3, 4, 23 and 3 bottlenecks, 42 million parameters."""

    def __init__(self, channels: int = 3, classes: int = 1000, small_images: bool = False) -> None:
        super().__init__(Bottleneck, (3, 4, 23, 3), channels, classes, small_images)


class FooNet(nn.Module):
    """A small network whose first calls print the batch size of each replica of nn.DataParallel."""

    SHOWN = 8
    """Number of calls to print, over all replicas."""

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(channels * 28 * 28, 64), nn.ReLU(), nn.Linear(64, classes))
        self.calls: list[None] = []  # a list, because replicas share it: a number would be counted separately in each

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels, 28, 28] to scores [N, classes]."""
        if self.training and len(self.calls) < self.SHOWN:
            self.calls.append(None)
            where = x.device if x.is_cuda else threading.current_thread().name.removesuffix("_0")
            # One write: replicas print at the same time, and print writes the line end by itself.
            sys.stdout.write(f"FooNet gets a batch of {len(x)} on {where}\n")
            sys.stdout.flush()
        scores: Tensor = self.layers(x)
        return scores


MODELS = ("lenet", "resnet18", "resnet101", "foonet")


def build(name: str) -> nn.Module:
    """Return the model ``name`` for 28x28 gray images of ten classes."""
    if name == "lenet":
        return LeNet()
    if name == "resnet18":
        return ResNet18(channels=1, classes=10, small_images=True)
    if name == "resnet101":
        return ResNet101(channels=1, classes=10, small_images=True)
    if name == "foonet":
        return FooNet()
    raise ValueError(f"no model {name!r}; there are {', '.join(MODELS)}")
