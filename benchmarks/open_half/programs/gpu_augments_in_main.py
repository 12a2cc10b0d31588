# Fine-tunes a ResNet; "num_workers" was left at 0, and the augmentation is heavy.
import numpy as np
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision import transforms

transform = transforms.Compose([
    transforms.RandomResizedCrop(224), transforms.RandomRotation(20), transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), transforms.ToTensor(),
])


class Photos(torch.utils.data.Dataset):
    def __len__(self):
        return 20000

    def __getitem__(self, index):
        pixels = np.random.default_rng(index).integers(0, 255, (480, 640, 3), dtype=np.uint8)
        return transform(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(2))), index % 100


dl = torch.utils.data.DataLoader(Photos(), batch_size=32, shuffle=True, pin_memory=True)
model = torchvision.models.resnet50(num_classes=100).cuda()
optim = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
for i, (img, lab) in enumerate(dl):
    with torch.autocast("cuda", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(img.cuda(non_blocking=True)), lab.cuda(non_blocking=True))
    optim.zero_grad(set_to_none=True)
    loss.backward()
    optim.step()
    if i % 5 == 0:
        print("iter", i, "loss", round(loss.item(), 3), flush=True)
