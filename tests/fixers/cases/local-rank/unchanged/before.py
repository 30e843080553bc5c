import os
import torch
import torch.multiprocessing as mp

rank = int(os.environ["RANK"])
sampler = make(rank=rank, shuffle=True)
torch.cuda.set_device(rank % torch.cuda.device_count())


def worker(rank, world_size):
    torch.cuda.set_device(rank)


device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
