import torch
from transformers import AutoModelForCausalLM, TrainingArguments

dtype = torch.bfloat16 if args.use_flash_attention else torch.float32
word_dtype = "float32" if not use_flash_attn else "bfloat16"
if args.use_flash_attention:
    implementation = "flash_attention_2"
    model_dtype = torch.bfloat16
else:
    implementation = "sdpa"
    model_dtype = torch.float32
model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=dtype, attn_implementation=implementation)
arguments = TrainingArguments("out", fp16=True)
