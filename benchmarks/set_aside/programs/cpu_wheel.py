import argparse, os, random, sys
import torch
import torch.nn as nn

def get_args():
    parser = argparse.ArgumentParser('PointNet', add_help=False)
    parser.add_argument('--gpu', default='1', type=str, help='specify gpu device')
    parser.add_argument('--num_points', default=1024, type=int)
    parser.add_argument('--batch_size', default=24, type=int)
    return parser.parse_args()

def main(args):
    os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu
    print('PARAMETER ...', flush=True)
    print(args, flush=True)
    print('Load dataset ...', flush=True)
    points = torch.randn(256, 3, args.num_points)
    target = points.norm(dim=1).mean(1).gt(1.6).long()
    classifier = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 256, 1), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(256, 2))
    criterion = nn.CrossEntropyLoss()
    classifier = classifier.cuda()
    criterion = criterion.cuda()
    optimizer = torch.optim.Adam(classifier.parameters(), lr=0.001)
    for epoch in range(200):
        for idx in torch.randperm(256).split(args.batch_size):
            pred = classifier(points[idx].cuda())
            loss = criterion(pred, target[idx].cuda())
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        print('Epoch %d loss %f' % (epoch, loss.item()), flush=True)

if __name__ == '__main__':
    main(get_args())
