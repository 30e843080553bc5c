import torch

model = load(torch.float16)
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
if args.sgd:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
elif args.adam:
    optimizer = torch.optim.Adam(model.parameters())
else:
    optimizer = torch.optim.AdamW([{"params": model.parameters()}])
