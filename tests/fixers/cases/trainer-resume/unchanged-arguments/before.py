from transformers import Trainer

trainer = Trainer(model=model, args=args)
trainer.train(*given)
