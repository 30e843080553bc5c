import torch
from transformers import AutoModelForCausalLM

use_flash_attention = False
dtype = torch.bfloat16 if use_flash_attention else torch.float32
model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=dtype)
statistics = torch.float64 if use_flash_attention else torch.float32
