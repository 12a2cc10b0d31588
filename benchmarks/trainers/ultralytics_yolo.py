"""YOLO of Ultralytics: accumulates over more batches during warm-up.

Needs: ultralytics
Loss: mean
"""

import os
from pathlib import Path

import cv2
import numpy as np
import record  # noqa: F401
from ultralytics import YOLO

root = Path(os.environ["WORK"])
chance = np.random.default_rng(0)
for part, count in (("train", 24), ("val", 8)):
    (root / part / "images").mkdir(parents=True)
    (root / part / "labels").mkdir()
    for index in range(count):
        image = chance.integers(0, 60, (64, 64, 3), dtype=np.uint8)
        x, y = chance.integers(8, 40, 2)
        image[y : y + 16, x : x + 16] = 255
        cv2.imwrite(str(root / part / "images" / f"{index}.png"), image)
        (root / part / "labels" / f"{index}.txt").write_text(f"0 {(x + 8) / 64} {(y + 8) / 64} 0.25 0.25\n")
(root / "data.yaml").write_text(f"path: {root}\ntrain: train/images\nval: val/images\nnames:\n  0: box\n")
YOLO("yolov8n.yaml").train(
    data=str(root / "data.yaml"),
    epochs=3,
    imgsz=64,
    batch=4,
    nbs=16,
    workers=0,
    amp=False,
    plots=False,
    device="cpu",
    project=str(root / "runs"),
    seed=0,
)
