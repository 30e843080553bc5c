import torch
from transformers import BitsAndBytesConfig

q = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)
