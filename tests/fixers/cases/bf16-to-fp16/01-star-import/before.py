from torch import *
from torch import nn

layer = nn.Linear(1, 1, dtype=bfloat16)
x = zeros(1).to(bfloat16)
assert layer.weight.dtype == bfloat16
