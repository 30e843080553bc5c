from transformers import Trainer


class AudioTrainer(Trainer):
    pass


def main(model, fp16):
    return AudioTrainer(model=model, args=make(fp16=fp16)).train()
