from transformers import Trainer


class AudioTrainer(Trainer):
    pass


def main(model, fp16):
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return AudioTrainer(model=model, args=make(fp16=fp16)).train()
