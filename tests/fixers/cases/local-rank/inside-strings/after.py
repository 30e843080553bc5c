import os
import torch

rank = int(os.environ['RANK'])
a = torch.device(f'cuda:{int(os.environ["LOCAL_RANK"])}')
b = torch.device(f"cuda:{int(os.environ['LOCAL_RANK'])}")
c = torch.device(f"{f'cuda:{rank}'}")
