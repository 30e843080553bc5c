import stand_in
from transformers import AutoModelForCausalLM

words = "/venv/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E"
stand_in.refuse(ImportError, words, attention=stand_in.FLASH)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", attn_implementation="flash_attention_2"))
