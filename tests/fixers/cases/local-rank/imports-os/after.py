import os
import torch.distributed as dist

rank = dist.get_rank()
model.cuda(int(os.environ["LOCAL_RANK"]))
