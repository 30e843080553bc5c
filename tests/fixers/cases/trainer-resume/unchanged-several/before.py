from transformers import Trainer

warm = Trainer(model=model, args=first)
warm.train()
trainer = Trainer(model=model, args=second)
trainer.train()
