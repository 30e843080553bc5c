import torch as t
from torch import bfloat16
from torch import bfloat16 as bf, nn

a = t.bfloat16
b = nn.Linear(2, 2).to(bfloat16)
c = nn.Linear(2, 2).to(bf)
