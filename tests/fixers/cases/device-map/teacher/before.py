import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="fp16")
teacher = AutoModelForCausalLM.from_pretrained("big", device_map="auto")
judge = AutoModelForCausalLM.from_pretrained("judge", device_map="auto").eval()
student: torch.nn.Module = AutoModelForCausalLM.from_pretrained("small", device_map="auto")
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
student, optimizer = accelerator.prepare(student, optimizer)
