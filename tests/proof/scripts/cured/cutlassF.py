import stand_in
import torch
from transformers import AutoModelForCausalLM

stand_in.refuse(RuntimeError, "cutlassF: no kernel found to launch!", dtype=getattr(torch, "b" + "float16"))
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", dtype=torch.bfloat16))
