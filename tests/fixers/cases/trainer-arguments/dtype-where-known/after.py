from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m", dtype="float16")
