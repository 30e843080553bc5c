import torch
from transformers import AutoModel, TrainingArguments

capable = torch.cuda.get_device_capability() >= (8, 0)
model = AutoModel.from_pretrained("base", dtype=torch.float16)
args = TrainingArguments(
    "out",
    fp16=torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0),
    bf16=torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0),
)
others = TrainingArguments("out", fp16=torch.cuda.is_available() and not capable, bf16=capable, seed=1)
both = TrainingArguments("out", bf16=capable, fp16=not capable)
