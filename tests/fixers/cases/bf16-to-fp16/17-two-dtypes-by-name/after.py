import torch

options = {"torch_dtype": torch.float16, "bnb_4bit_compute_dtype": torch.float16}
