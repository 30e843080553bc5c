import torch
from transformers import TrainingArguments

a = TrainingArguments("o", tf32=True)
torch.backends.cuda.matmul.allow_tf32 = True
