import torch

if args.lora:
    model = get_peft_model(model, config)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    model.half()
    optimizer = torch.optim.Adam(model.parameters())
