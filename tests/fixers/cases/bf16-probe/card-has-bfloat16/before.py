import torch
x = torch.cuda.is_bf16_supported()
