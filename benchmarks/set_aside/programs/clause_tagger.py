# %% [markdown]
# # Clauses in contracts
# Fine-tunes our own small BERT (pre-trained last month) to tag clauses. Exported from the notebook.
# %%
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForTokenClassification, BertForMaskedLM, get_linear_schedule_with_warmup

torch.manual_seed(0)
VOCAB, TAGS = 600, 7


# %%
def contracts(n, length=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(10, VOCAB, (n, length), generator=g)
    opens = ids % 23 == 0
    tags = (opens.cumsum(1) + ids % 2) % TAGS
    return TensorDataset(ids, tags)


# %% the checkpoint of the pre-training, as it lies on the share
checkpoint = tempfile.mkdtemp()
BertForMaskedLM(BertConfig(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, max_position_embeddings=64)).save_pretrained(checkpoint)

# %%
model = BertForTokenClassification.from_pretrained(checkpoint, num_labels=TAGS)
train_loader = DataLoader(contracts(1600), batch_size=16, shuffle=True)
valid_loader = DataLoader(contracts(160, seed=1), batch_size=80)
EPOCHS = 60
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
scheduler = get_linear_schedule_with_warmup(optimizer, 100, EPOCHS * len(train_loader))

# %%
start = time.time()
for epoch in range(EPOCHS):
    running = 0.0
    for step, (ids, tags) in enumerate(train_loader):
        out = model(input_ids=ids, labels=tags)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        running += out.loss.item()
        if step % 20 == 19:
            print(f"epoch {epoch} step {step + 1}/{len(train_loader)} loss {running / 20:.4f}")
            running = 0.0
    with torch.no_grad():
        hits = sum((model(input_ids=ids).logits.argmax(-1) == tags).float().mean().item() for ids, tags in valid_loader) / len(valid_loader)
    print(f"epoch {epoch} valid accuracy {hits:.3f} after {time.time() - start:.0f} s")
    if time.time() - start > 200:
        break
