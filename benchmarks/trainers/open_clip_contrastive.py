"""OpenCLIP's contrastive training in parts: features of the whole batch first, then a backward for each part.

Needs: open_clip
Loss: sum
"""

import open_clip
import record  # noqa: F401
import torch
from open_clip.model import CLIPTextCfg, CLIPVisionCfg

net = open_clip.CLIP(
    embed_dim=16,
    vision_cfg=CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=8, image_size=16),
    text_cfg=CLIPTextCfg(context_length=8, vocab_size=64, width=32, heads=2, layers=1),
    output_dict=True,
)
criterion = open_clip.ClipLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 3, 16, 16), torch.randint(1, 64, (64, 8)))
parts = []
for epoch in range(3):
    for images, texts in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        with torch.no_grad():
            features = net(images, texts)
        features.pop("logit_scale")
        parts.append((images, texts, features))
        if len(parts) < 2:
            continue
        optimizer.zero_grad()
        for number, (images, texts, _) in enumerate(parts):
            made = net(images, texts)
            scale = made.pop("logit_scale")
            whole = {
                name: torch.cat(
                    [*(part[2][name] for part in parts[:number]), made[name], *(part[2][name] for part in parts[number + 1 :])]
                )
                for name in made
            }
            loss = criterion(**whole, logit_scale=scale)
            loss.backward()
        optimizer.step()
        parts.clear()
        with torch.no_grad():
            net.logit_scale.clamp_(0, 4.6)
    print(epoch, loss.item())
