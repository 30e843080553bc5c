import copy

import torch
from torch.optim.swa_utils import AveragedModel

model = load().half()
average = AveragedModel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
student = load().half()
ema = copy.deepcopy(student).eval()
own = torch.optim.AdamW(student.parameters(), lr=1e-4)
pupil = load().half()
guide = copy.deepcopy(pupil).eval()
last = torch.optim.AdamW(pupil.parameters(), lr=1e-4)
