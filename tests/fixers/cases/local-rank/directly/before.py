import os
import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["RANK"]))
model.cuda(int(os.getenv("RANK", "0")))
model = load(device_map={"": dist.get_rank()})
