from trl import SFTTrainer


def make(model, fp16, lora):
    a = b = SFTTrainer(model=model, peft_config=lora)
    holder["trainer"] = SFTTrainer(model=model, peft_config=lora)
    return SFTTrainer(model=model, peft_config=lora)


def own(model, lora):
    trainer = mine.AdapterTrainer(model=model, peft_config=lora)
