import stand_in
from transformers import AutoModelForCausalLM

words = "FlashAttention2 has been toggled on, but it cannot be used: the package flash_attn seems to be not installed."
stand_in.refuse(ImportError, words, attention=stand_in.FLASH)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", attn_implementation="flash_attention_2"))
