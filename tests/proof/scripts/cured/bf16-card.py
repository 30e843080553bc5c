import stand_in
import torch
from transformers import AutoModelForCausalLM

stand_in.refuse(
    ValueError,
    "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your TITAN RTX GPU has compute "
    "capability 7.5.",
    dtype=getattr(torch, "b" + "float16"),
)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", dtype=torch.bfloat16))
