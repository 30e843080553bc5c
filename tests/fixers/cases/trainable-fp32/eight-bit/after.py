import bitsandbytes as bnb

model = model.half()
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-4)
