import torch

ask = torch.cuda.is_bf16_supported
