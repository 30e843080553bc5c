import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0"

from transformers import AutoModel, Trainer

model = AutoModel.from_pretrained("m", device_map="auto")
Trainer(model=model).train()
