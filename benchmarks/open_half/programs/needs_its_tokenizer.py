"""Fine-tunes a tagger. python needs_its_tokenizer.py --tokenizer DIR"""
import argparse
import json

import torch
from torch import nn


def vocabulary(folder):
    with open(f"{folder}/vocab.json") as file:
        return json.load(file)


parser = argparse.ArgumentParser()
parser.add_argument("--tokenizer", default="checkpoints/tagger-small")
words = vocabulary(parser.parse_args().tokenizer)
net = nn.EmbeddingBag(len(words), 64)
opt = torch.optim.SparseAdam(net.parameters(), 1e-3)
