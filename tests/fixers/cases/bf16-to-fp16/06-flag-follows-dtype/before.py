import torch
from transformers import TrainingArguments

a = TrainingArguments("o", bf16=dtype == torch.bfloat16, fp16=dtype == torch.float16)
b = TrainingArguments("o", bf16=dtype == torch.bfloat16)
