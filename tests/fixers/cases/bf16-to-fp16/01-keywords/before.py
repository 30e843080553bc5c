import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.bfloat16, device_map={"": 0})
model = AutoModelForCausalLM.from_pretrained("m", dtype=torch.bfloat16)
x = torch.zeros(2, dtype=torch.bfloat16, device="cuda")
torch.set_default_dtype(torch.bfloat16)
smallest = torch.finfo(torch.bfloat16).min
lowest: torch.bfloat16 = 1
assert isinstance(x, torch.bfloat16)
print(torch.bfloat16)


def build(dtype: torch.bfloat16 = torch.bfloat16, *, other=torch.bfloat16) -> torch.bfloat16:
    return torch.bfloat16
