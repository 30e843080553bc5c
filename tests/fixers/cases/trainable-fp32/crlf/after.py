import torch
m = model.half()
if 1:
	for parameter in m.parameters():  # a loss scaler refuses float16 gradients
	    if parameter.requires_grad:
	        parameter.data = parameter.data.float()
	o = torch.optim.AdamW(m.parameters())