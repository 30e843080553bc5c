import torch

s = f"torch.bfloat16 {torch.float16} {f'{torch.float16!r:>{len(str(torch.float16))}}'}"
