"""Reads MNIST and Fashion-MNIST from IDX files that are already on this machine. Downloads nothing.

An IDX file is a magic number (two zero bytes, the type of the values, the number of dimensions), one big-endian 32-bit size per
dimension, then the values.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path

import torch
from torch import Tensor

_UNSIGNED_BYTE = 8
_NAMES = ("MNIST", "FashionMNIST")
_COUNTS = {"train": 60_000, "t10k": 10_000}
_PUBLISHED = {
    # MD5 of the compressed files, as given by their publishers (and torchvision).
    "f68b3c2dcbeaaa9fbdd348bbdeb94873": ("MNIST", "train-images-idx3-ubyte"),
    "d53e105ee54ea40749a09fcbcd1e9432": ("MNIST", "train-labels-idx1-ubyte"),
    "9fb629c4189551a2d022fa330f9573f3": ("MNIST", "t10k-images-idx3-ubyte"),
    "ec29112dd5afa0611ce80d1b7f02629c": ("MNIST", "t10k-labels-idx1-ubyte"),
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d": ("FashionMNIST", "train-images-idx3-ubyte"),
    "25c81989df183df01b3e8a0aad5dffbe": ("FashionMNIST", "train-labels-idx1-ubyte"),
    "bef4ecab320f06d8554ea6380940ec79": ("FashionMNIST", "t10k-images-idx3-ubyte"),
    "bb300cfdad3c16e7a12a480ee83cd310": ("FashionMNIST", "t10k-labels-idx1-ubyte"),
}


class IdxError(ValueError):
    """A file is not an IDX file of the expected kind."""


def read_idx(path: Path) -> Tensor:
    """Return the bytes of an IDX file (also .gz) in their shape.

    Raises:
        IdxError: the header is wrong, or the file is shorter or longer than its header says.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise IdxError(f"{path} is a damaged gzip file: {error}") from error
    if len(data) < 4 or data[:2] != b"\0\0":
        raise IdxError(f"{path} does not start like an IDX file.")
    kind, dimensions = data[2], data[3]
    if kind != _UNSIGNED_BYTE or dimensions == 0:
        raise IdxError(f"{path} has type {kind} in {dimensions} dimensions; images and labels are unsigned bytes (type 8).")
    header = 4 + 4 * dimensions
    if len(data) < header:
        raise IdxError(f"{path} ends within its header.")
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    if math.prod(shape) != len(data) - header:
        raise IdxError(f"{path} should contain {math.prod(shape)} values, but contains {len(data) - header}.")
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8).view(shape)


def find(directory: Path, part: str) -> tuple[str, Path, Path]:
    """Return the data set's name, its image file and its label file; ``part`` is "train" or "t10k".

    Searches ``directory`` itself and torchvision's layout below it (MNIST/raw, FashionMNIST/raw).

    Raises:
        FileNotFoundError: none is there; the message lists what was searched.
    """
    folders = [(directory.name or "IDX images", directory)]
    folders += [(name, directory / name / "raw") for name in _NAMES]
    for name, folder in folders:
        found = [_first(folder, f"{part}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
        if found[0] and found[1]:
            return name, found[0], found[1]
    places = ", ".join(str(folder) for _, folder in folders)
    raise FileNotFoundError(f"No {part}-images-idx3-ubyte and {part}-labels-idx1-ubyte (or .gz) in {places}.")


def _first(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def published(path: Path) -> tuple[str, str] | None:
    """Identify a compressed file by its checksum: return (data set, name) of the published file, None for any other.

    Raises:
        IdxError: it is a published file under the name of another one.
    """
    found = _PUBLISHED.get(hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
    if found is not None and found[1] != path.name.removesuffix(".gz"):
        raise IdxError(f"{path} is {found[1]} of {found[0]} under another name.")
    return found


def notes(directory: Path, part: str) -> list[str]:
    """Return what is unusual, but not wrong, about the files of one part: they can still be used for training.

    Raises:
        FileNotFoundError, IdxError: see ``load``.
    """
    _, image_path, label_path = find(directory, part)
    found, sets = [], set()
    for path in (image_path, label_path):
        if path.suffix == ".gz":
            known = published(path)
            sets.add(known and known[0])
            if known is None:
                found.append(f"{path} is not a published file of MNIST or Fashion-MNIST: its checksum differs.")
    if len(sets - {None}) > 1:
        raise IdxError(f"{image_path} and {label_path} belong to different data sets: the labels are for other images.")
    if (count := len(read_idx(label_path))) != _COUNTS[part]:
        found.append(f"{label_path} contains {count} labels, the published file {_COUNTS[part]}.")
    return found


def load(directory: Path, part: str) -> tuple[str, Tensor, Tensor]:
    """Return the name, images [N, 28, 28] and labels [N] of one part, "train" or "t10k".

    Raises:
        FileNotFoundError: the files are not there.
        IdxError: they are invalid.
    """
    name, image_path, label_path = find(directory, part)
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.dim() != 3 or images.shape[1:] != (28, 28):
        raise IdxError(f"{image_path} has shape {tuple(images.shape)}; expected are images of 28 x 28.")
    if labels.shape != images.shape[:1]:
        raise IdxError(f"{label_path} contains {tuple(labels.shape)} labels for {len(images)} images.")
    if len(labels) and int(labels.max()) > 9:
        raise IdxError(f"{label_path} contains the label {int(labels.max())}; expected are 0 to 9.")
    return name, images, labels.long()
