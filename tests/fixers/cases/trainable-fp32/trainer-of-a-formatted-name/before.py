from transformers import Trainer

base = f"{org}/fp16"
one = Trainer(model=base)
