"""What the scripts print at their end, for the tests to compare with what was tracked."""

import hashlib
import json


def say(steps, weights, **losses):
    raw = json.dumps([[item.detach().double().flatten().tolist() for item in model.state_dict().values()] for model in weights])
    print(json.dumps({"steps": steps, "weights": hashlib.sha256(raw.encode()).hexdigest(), "losses": losses}))
