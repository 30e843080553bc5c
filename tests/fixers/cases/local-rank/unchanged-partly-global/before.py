import os
import torch

rank = int(os.environ["RANK"])
if single:
    rank = 0
torch.cuda.set_device(rank)
torch.cuda.set_device(unknown)
device = torch.device(f"cuda:{unknown}")
device = torch.device(f"cpu:{rank}")
name = f"cuda:{rank}:0"
