from trl import SFTTrainer


class Run:
    def __init__(self, model, fp16, lora):
        self.trainer = SFTTrainer(model=model, peft_config=lora)
