import os
import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model.cuda(int(os.getenv("LOCAL_RANK", "0")))
model = load(device_map={"": int(os.environ["LOCAL_RANK"])})
