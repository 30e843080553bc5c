from transformers import AutoModel

a = AutoModel.from_pretrained((name))
