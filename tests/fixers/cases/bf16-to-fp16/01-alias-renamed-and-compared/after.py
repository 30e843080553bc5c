from torch import bfloat16 as bf, float16

x = float16
y = x == bf
