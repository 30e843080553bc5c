import torch as t
from torch import float16
from torch import float16 as bf, nn

a = t.float16
b = nn.Linear(2, 2).to(float16)
c = nn.Linear(2, 2).to(bf)
