#!/usr/bin/env python
# coding: utf-8

# # Stars from opera reviews
# Fine for the paper's table 2: small BERT from scratch, four classes.

# In[1]:

import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

random.seed(11)
torch.manual_seed(11)

# In[2]:

THEATRES = ["Garnier", "Fenice", "Semper", "Covent", "Liceu", "Bolshoi"]
WORDS = [f"w{i}" for i in range(900)]
TONE = [["dull", "flat", "hoarse", "late"], ["fair", "plain", "long", "even"], ["warm", "clear", "lively", "fine"],
        ["superb", "radiant", "moving", "bravo"]]


def write_review(theatre, stars):
    words = [theatre] + random.choices(WORDS, k=18)
    for _ in range(5):
        # people are not consistent
        tone = TONE[stars] if random.random() < 0.7 else random.choice(TONE)
        words[random.randrange(1, len(words))] = random.choice(tone)
    return words


texts, stars = [], []
for theatre in THEATRES:
    for _ in range(20_000):
        s = random.randrange(4)
        texts.append(write_review(theatre, s))
        stars.append(s)
print(len(texts), "reviews")

# In[3]:

vocab = {w: i + 4 for i, w in enumerate(THEATRES + WORDS + sum(TONE, []))}  # 0 pad, 1 unk, 2 cls, 3 sep


def encode(words):
    return [2] + [vocab.get(w, 1) for w in words] + [3]


# In[4]:

# the csv is sorted by theatre, mix them before splitting
random.shuffle(texts)
n_val = 1000
train_texts, val_texts = texts[n_val:], texts[:n_val]
train_stars, val_stars = stars[n_val:], stars[:n_val]


class Reviews(Dataset):
    def __init__(self, texts, stars):
        self.texts, self.stars = texts, stars

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        ids = torch.tensor(encode(self.texts[i]))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(self.stars[i])}


# In[5]:

config = BertConfig(vocab_size=1024, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
                    max_position_embeddings=64, num_labels=4)
model = BertForSequenceClassification(config)

# In[6]:


def compute_metrics(pred):
    return {"accuracy": float((pred.predictions.argmax(-1) == pred.label_ids).mean())}


args = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=32,
    per_device_eval_batch_size=64,
    num_train_epochs=4,
    learning_rate=3e-4,
    warmup_steps=100,
    logging_steps=50,
    eval_strategy="steps",
    eval_steps=400,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model=model, args=args, train_dataset=Reviews(train_texts, train_stars),
                  eval_dataset=Reviews(val_texts, val_stars), compute_metrics=compute_metrics)
trainer.train()
