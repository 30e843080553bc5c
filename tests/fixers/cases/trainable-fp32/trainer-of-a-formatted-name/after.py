from transformers import Trainer

base = f"{org}/fp16"
one = Trainer(model=base)
for parameter in one.model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
