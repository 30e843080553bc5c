import torch
from transformers import AutoModel, TrainingArguments

capable = torch.cuda.get_device_capability() >= (8, 0)
model = AutoModel.from_pretrained("base", dtype=torch.bfloat16 if capable else torch.float32)
args = TrainingArguments("out", bf16=capable)
