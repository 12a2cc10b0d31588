"""a model behind a queue; requests come now and then"""
import random, time
import torch

model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 2).eval()
served = 0
with torch.inference_mode():
    while True:
        time.sleep(random.expovariate(8.0))
        model(torch.randn(random.choice((1, 2, 8)), 64, 128))
        served += 1
        if served % 20 == 0:
            print(f'INFO:     {served} requests served', flush=True)
