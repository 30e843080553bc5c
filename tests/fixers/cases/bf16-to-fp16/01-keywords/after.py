import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16, device_map={"": 0})
model = AutoModelForCausalLM.from_pretrained("m", dtype=torch.float16)
x = torch.zeros(2, dtype=torch.float16, device="cuda")
torch.set_default_dtype(torch.float16)
smallest = torch.finfo(torch.float16).min
lowest: torch.bfloat16 = 1
assert isinstance(x, torch.bfloat16)
print(torch.bfloat16)


def build(dtype: torch.bfloat16 = torch.float16, *, other=torch.float16) -> torch.bfloat16:
    return torch.float16
