import stand_in
from transformers import AutoModelForCausalLM

stand_in.refuse(RuntimeError, "FlashAttention only supports Ampere GPUs or newer.", attention=stand_in.FLASH)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", attn_implementation="flash_attention_2"))
