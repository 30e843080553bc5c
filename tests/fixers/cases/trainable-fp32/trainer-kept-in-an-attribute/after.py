from trl import SFTTrainer


class Run:
    def __init__(self, model, fp16, lora):
        self.trainer = SFTTrainer(model=model, peft_config=lora)
        for parameter in self.trainer.model.parameters():  # a loss scaler refuses float16 gradients
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
