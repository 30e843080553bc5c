from transformers import AutoModelForCausalLM

a = AutoModelForCausalLM.from_pretrained((name), dtype="float16")
