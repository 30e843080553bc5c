import torch.distributed as dist
from transformers import AutoModel

os = "linux"
dist.init_process_group("nccl")
model = AutoModel.from_pretrained("m", device_map="auto")
