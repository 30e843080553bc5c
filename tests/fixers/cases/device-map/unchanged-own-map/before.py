from transformers import AutoModel, Trainer

model = AutoModel.from_pretrained("m", device_map={"": 0})
trainer = Trainer(model=model)  # device_map="auto"
