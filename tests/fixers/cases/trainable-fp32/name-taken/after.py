import torch

parameter = torch.float16
for trainable_parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if trainable_parameter.requires_grad:
        trainable_parameter.data = trainable_parameter.data.float()
optimizer = torch.optim.AdamW(model.parameters())
