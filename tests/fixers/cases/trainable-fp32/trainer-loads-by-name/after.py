from trl import SFTConfig, SFTTrainer

name = "org/model"
first = SFTTrainer(model=name, args=SFTConfig(fp16=True))
for parameter in first.model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
second = SFTTrainer(model="org/model", args=SFTConfig(fp16=True))
for parameter in second.model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
third = SFTTrainer(model=args.model_path, args=SFTConfig(fp16=True))
for parameter in third.model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
