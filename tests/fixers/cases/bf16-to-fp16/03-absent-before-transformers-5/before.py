from transformers import AutoModelForCausalLM

b = AutoModelForCausalLM.from_pretrained("m")
