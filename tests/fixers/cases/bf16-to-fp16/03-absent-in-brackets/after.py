from transformers import AutoModel

a = AutoModel.from_pretrained((name), dtype="float16")
