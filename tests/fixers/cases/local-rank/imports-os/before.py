import torch.distributed as dist

rank = dist.get_rank()
model.cuda(rank)
