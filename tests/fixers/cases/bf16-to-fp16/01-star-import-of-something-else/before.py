from numbers_of_ours import *
from torch import *

bfloat16 = "a word of ours"
x = zeros(1).to(bfloat16)
