class Trainer:
    def __init__(self, model, fp16):
        self.model = model


trainer = Trainer(model, fp16=True)
