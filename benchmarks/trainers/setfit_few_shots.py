"""SetFit: a sentence model trained on pairs, then a classifier on its embeddings.

Needs: setfit, sentence_transformers, datasets
Loss: sum
"""

import os

import record  # noqa: F401
from datasets import Dataset
from sentence_transformers import SentenceTransformer, models
from setfit import SetFitModel, Trainer, TrainingArguments
from transformers import BertConfig, BertModel
from words import texts, tokenizer

place = os.environ["WORK"] + "/model"
BertModel(
    BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
).save_pretrained(place)
tokenizer().save_pretrained(place)
words = models.Transformer(place, max_seq_length=16)
body = SentenceTransformer(modules=[words, models.Pooling(words.get_word_embedding_dimension())], device="cpu")
net = SetFitModel(model_body=body, model_head=None, use_differentiable_head=False)
if net.model_head is None:
    from sklearn.linear_model import LogisticRegression

    net.model_head = LogisticRegression()
Trainer(
    net,
    TrainingArguments(
        os.environ["WORK"], batch_size=8, num_epochs=1, num_iterations=3, report_to=[], save_strategy="no", logging_steps=1
    ),
    train_dataset=Dataset.from_dict({"text": texts(16, 10), "label": [0, 1] * 8}),
).train()
