"""The trainer of Sentence Transformers with its ranking loss.

Needs: sentence_transformers, datasets
Loss: sum
"""

import os

import record  # noqa: F401
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
    models,
)
from transformers import BertConfig, BertModel
from words import texts, tokenizer

place = os.environ["WORK"] + "/model"
BertModel(
    BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
).save_pretrained(place)
tokenizer().save_pretrained(place)
words = models.Transformer(place, max_seq_length=16)
net = SentenceTransformer(modules=[words, models.Pooling(words.get_word_embedding_dimension())], device="cpu")
settings = SentenceTransformerTrainingArguments(
    os.environ["WORK"],
    num_train_epochs=2,
    per_device_train_batch_size=8,
    logging_steps=1,
    report_to=[],
    use_cpu=True,
    save_strategy="no",
)
SentenceTransformerTrainer(
    net,
    args=settings,
    train_dataset=Dataset.from_dict({"anchor": texts(64, 10), "positive": texts(65, 10)[:64]}),
    loss=losses.MultipleNegativesRankingLoss(net),
).train()
