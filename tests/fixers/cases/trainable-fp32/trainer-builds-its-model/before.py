from transformers import Trainer

trainer = Trainer(model_init=build, args=make(fp16=True))
