import os
import torch

rank, world = int(os.environ.get("RANK", 0)), int(os.environ["WORLD_SIZE"])
local_rank = int(os.environ["LOCAL_RANK"])


def place(model):
    return model.to(f"cuda:{local_rank}"), {"": rank}


torch.cuda.set_device(local_rank)
