import os
import torch

rank = int(os.environ['RANK'])
a = torch.device(f'cuda:{rank}')
b = torch.device(f"cuda:{rank}")
c = torch.device(f"{f'cuda:{rank}'}")
