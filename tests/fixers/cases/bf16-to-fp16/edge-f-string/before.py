import torch

s = f"torch.bfloat16 {torch.bfloat16} {f'{torch.bfloat16!r:>{len(str(torch.bfloat16))}}'}"
