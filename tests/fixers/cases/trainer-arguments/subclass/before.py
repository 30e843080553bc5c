import transformers


class AudioTrainer(transformers.Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss


class OwnTrainer(transformers.Trainer):
    def __init__(self, tokenizer):
        super().__init__(tokenizer=tokenizer)


trainer = AudioTrainer(model=model, tokenizer=processor)
other = OwnTrainer(tokenizer=processor)
