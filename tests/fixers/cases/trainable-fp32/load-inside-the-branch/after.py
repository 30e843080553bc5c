import torch

if args.lora:
    model = get_peft_model(model, config)
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    model.half()
    for parameter in model.parameters():  # a loss scaler refuses float16 gradients
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    optimizer = torch.optim.Adam(model.parameters())
