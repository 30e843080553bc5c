import os
import torch

rank = world, host = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
model.cuda(rank)
