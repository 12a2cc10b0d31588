"""A tokenizer of 60 words, and texts of them."""

import random

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def tokenizer():
    words = ["<pad>", "<unk>", "<eos>", *(f"w{index}" for index in range(60))]
    made = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>")


def texts(count, longest):
    chance = random.Random(count)
    return [" ".join(f"w{chance.randrange(60)}" for _ in range(chance.randrange(4, longest))) for _ in range(count)]
