import torch
from transformers import TrainingArguments

a = TrainingArguments("o", tf32=False)
torch.backends.cuda.matmul.allow_tf32 = True
