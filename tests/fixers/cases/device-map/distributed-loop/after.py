import os as operating_system
import torch.distributed as dist
from transformers import AutoModel

dist.init_process_group("nccl")
model = AutoModel.from_pretrained("m", device_map={"": int(operating_system.environ.get("LOCAL_RANK", "0"))})
