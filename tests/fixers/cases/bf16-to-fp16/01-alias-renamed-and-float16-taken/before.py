from torch import bfloat16 as bf
from numpy import float16

x = bf
y = x == bf
