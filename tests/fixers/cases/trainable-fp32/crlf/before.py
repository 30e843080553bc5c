import torch
m = model.half()
if 1:
	o = torch.optim.AdamW(m.parameters())