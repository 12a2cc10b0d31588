"""The pipeline of PyKEEN: link prediction on a small graph. It first measures its memory on batches whose gradients it drops.

Needs: pykeen
Loss: last
"""

import record  # noqa: F401
import torch
from pykeen.pipeline import pipeline
from pykeen.triples import TriplesFactory

triples = torch.stack([torch.arange(40), torch.arange(40) % 4, (torch.arange(40) * 7 + 3) % 40], dim=1)
graph = TriplesFactory(
    mapped_triples=triples,
    entity_to_id={f"e{number}": number for number in range(40)},
    relation_to_id={f"r{number}": number for number in range(4)},
)
pipeline(
    training=graph,
    testing=graph,
    model="TransE",
    model_kwargs={"embedding_dim": 8},
    training_kwargs={"num_epochs": 4, "batch_size": 8, "use_tqdm": False},
    random_seed=0,
    device="cpu",
)
