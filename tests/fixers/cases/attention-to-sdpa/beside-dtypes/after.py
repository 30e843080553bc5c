import torch

one = {"torch_dtype": "float16", "attn_implementation": "sdpa"}
two = {"dtype": torch.float16, "attn_implementation": "sdpa"}
command = ["accelerate", "launch", "--mixed_precision", "fp16", "--attn_implementation", "sdpa"]
