from lightning import Trainer

trainer = Trainer(precision="16-mixed", model=model)
