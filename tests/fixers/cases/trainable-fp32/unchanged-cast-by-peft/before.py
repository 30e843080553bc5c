import torch
from peft import cast_mixed_precision_params

cast_mixed_precision_params(model, dtype=torch.float16)
if fast:
    optimizer = torch.optim.AdamW(model.parameters())
