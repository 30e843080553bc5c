import stand_in
import torch
from transformers import AutoModelForCausalLM

stand_in.refuse(
    RuntimeError, "GET was unable to find an engine to execute this computation", dtype=getattr(torch, "b" + "float16")
)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", dtype=torch.bfloat16))
