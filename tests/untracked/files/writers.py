"""Writes files as training libraries do, byte by byte according to the documentation of their formats."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: int | float | bytes | str) -> bytes:
    """Return a field: an int as a varint, a float as 8 bytes, bytes and text with their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, float):
        return varint(number << 3 | 1) + struct.pack("<d", content)
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def float32(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(raw: bytes) -> bytes:
    crc = crc32c(raw)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord_head(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + masked(length)


def tfrecord(data: bytes) -> bytes:
    return tfrecord_head(len(data)) + data + masked(data)


def event(at: float, step: int, *values: bytes) -> bytes:
    """Return one record of an event file; ``values`` are made by ``simple`` and ``tensor``."""
    summary = field(5, b"".join(field(1, value) for value in values)) if values else field(3, "brain.Event:2")
    return tfrecord(field(1, at) + (field(2, step) if step else b"") + summary)


def simple(tag: str, value: float) -> bytes:
    return field(1, tag) + float32(2, value)


def tensor(tag: str, kind: int, *fields: bytes, plugin: str = "scalars") -> bytes:
    """Return a value as TensorFlow 2 writes it."""
    held = field(1, kind) + field(2, b"") + b"".join(fields)
    return field(1, tag) + field(8, held) + field(9, field(1, field(1, plugin)))


def event_file(folder: Path, pid: int, values: Mapping[int, float], *, at: float, tag: str = "loss", host: str = "") -> Path:
    """Write an event file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(at)}.{host}.{pid}.0"
    body = b"".join(event(at + step, step, simple(tag, value)) for step, value in values.items())
    path.write_bytes(event(at, 0) + body)
    return path


class WandbFile:
    """A W&B run file as it is written: pieces in blocks of 32 KiB."""

    def __init__(self) -> None:
        self.data = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))

    def record(self, data: bytes) -> None:
        left = 32768 - len(self.data) % 32768
        if left < 7:
            self.data += bytes(left)
            left = 32768
        if len(data) + 7 <= left:
            self._piece(1, data)
            return
        self._piece(2, data[: left - 7])
        data = data[left - 7 :]
        while len(data) > 32768 - 7:
            self._piece(3, data[: 32768 - 7])
            data = data[32768 - 7 :]
        self._piece(4, data)

    def _piece(self, kind: int, data: bytes) -> None:
        self.data += struct.pack("<IHB", zlib.crc32(data, zlib.crc32(bytes([kind]))), len(data), kind) + data

    def run(self, name: str, **config: object) -> None:
        """Add what ``wandb.init(name=..., config=...)`` writes."""
        items = b"".join(field(1, field(1, key) + field(16, json.dumps(value))) for key, value in config.items())
        self.record(field(1, 2) + field(17, field(1, "ab12") + field(4, items) + field(8, name)))

    def configure(self, **config: object) -> None:
        """Add what ``wandb.config.update`` writes."""
        self.record(
            field(1, 3)
            + field(5, b"".join(field(1, field(1, key) + field(16, json.dumps(value))) for key, value in config.items()))
        )

    def history(self, step: int, items: Mapping[str, object], nested: bool = False) -> None:
        """Add what one call of ``wandb.log`` writes."""
        body = b""
        for key, value in items.items():
            names = b"".join(field(2, part) for part in key.split(".")) if nested else field(1, key)
            body += field(1, names + field(16, json.dumps(value)))
        self.record(field(1, 7) + field(2, body + field(2, field(1, step) if step else b"")) + field(200, b""))


class MlflowDatabase:
    """An SQLite file as MLflow 3 makes it, as far as gputop reads it."""

    def __init__(self, path: Path) -> None:
        self.opened = sqlite3.connect(path, timeout=0)
        self.opened.executescript(MLFLOW_TABLES)

    def run(self, run_id: str, name: str, began_s: float, **settings: str) -> None:
        self.opened.execute(
            "INSERT INTO runs (run_uuid, name, status, start_time, lifecycle_stage) VALUES (?, ?, 'RUNNING', ?, 'active')",
            (run_id, name, int(began_s * 1000)),
        )
        self.opened.executemany("INSERT INTO params VALUES (?, ?, ?)", [(*item, run_id) for item in settings.items()])
        self.opened.commit()

    def log(self, run_id: str, name: str, values: Mapping[int, float], at_s: float) -> None:
        """Log values by step, a second apart, in one transaction."""
        rows = [
            (name, 0.0 if math.isnan(value) else value, int((at_s + step) * 1000), run_id, step, math.isnan(value))
            for step, value in values.items()
        ]
        self.opened.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.opened.commit()


MLFLOW_TABLES = """
CREATE TABLE runs (
    run_uuid VARCHAR(32) NOT NULL, name VARCHAR(250), status VARCHAR(9), start_time BIGINT, end_time BIGINT,
    lifecycle_stage VARCHAR(20), experiment_id INTEGER, CONSTRAINT run_pk PRIMARY KEY (run_uuid)
);
CREATE TABLE params (
    "key" VARCHAR(250) NOT NULL, value VARCHAR(8000) NOT NULL, run_uuid VARCHAR(32) NOT NULL,
    CONSTRAINT param_pk PRIMARY KEY ("key", run_uuid)
);
CREATE TABLE metrics (
    "key" VARCHAR(250) NOT NULL, value FLOAT NOT NULL, timestamp BIGINT NOT NULL, run_uuid VARCHAR(32) NOT NULL,
    step BIGINT DEFAULT '0' NOT NULL, is_nan BOOLEAN DEFAULT '0' NOT NULL,
    CONSTRAINT metric_pk PRIMARY KEY ("key", timestamp, step, run_uuid, value, is_nan)
);
CREATE INDEX index_metrics_run_uuid ON metrics (run_uuid);
"""
"""The columns that gputop reads, as mlflow 3.17 makes them, and their keys."""
