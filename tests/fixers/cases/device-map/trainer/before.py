from transformers import AutoModelForCausalLM, Trainer

model = AutoModelForCausalLM.from_pretrained("m", device_map="auto", trust_remote_code=True)
trainer = Trainer(model=model)
