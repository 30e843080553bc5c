import torch

one = {"torch_dtype": "float16", "attn_implementation": "flash_attention_2"}
two = {"dtype": torch.float16, "attn_implementation": "flash_attention_2"}
command = ["accelerate", "launch", "--mixed_precision", "fp16", "--attn_implementation", "flash_attention_2"]
