from transformers import AutoModel

model = AutoModel.from_pretrained("m", device_map="auto")
