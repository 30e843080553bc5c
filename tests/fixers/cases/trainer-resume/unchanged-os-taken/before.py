from transformers import Trainer

os = "linux"
Trainer(model=model, args=args).train()
