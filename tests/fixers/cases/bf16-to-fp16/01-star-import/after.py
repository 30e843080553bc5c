from torch import *
from torch import nn

layer = nn.Linear(1, 1, dtype=float16)
x = zeros(1).to(float16)
assert layer.weight.dtype == bfloat16
