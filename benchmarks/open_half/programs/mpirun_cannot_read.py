import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--scans", required=True)
args = parser.parse_args()
os.environ.setdefault("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
files = sorted(os.listdir(args.scans))
net = nn.Conv3d(1, 8, 3)
print(len(files), "scans", sum(p.numel() for p in net.parameters()), "parameters", torch.__version__)
