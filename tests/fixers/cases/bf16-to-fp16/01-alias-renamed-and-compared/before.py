from torch import bfloat16 as bf

x = bf
y = x == bf
