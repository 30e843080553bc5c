import copy

import torch
from torch.optim.swa_utils import AveragedModel

model = load().half()
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
average = AveragedModel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
student = load().half()
for parameter in student.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
ema = copy.deepcopy(student).eval()
own = torch.optim.AdamW(student.parameters(), lr=1e-4)
pupil = load().half()
guide = copy.deepcopy(pupil).eval()
for parameter in pupil.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
last = torch.optim.AdamW(pupil.parameters(), lr=1e-4)
