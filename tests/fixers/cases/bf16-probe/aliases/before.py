import torch as t
from torch import cuda
from torch.cuda import is_bf16_supported
from transformers.utils import is_torch_bf16_gpu_available

a = t.cuda.is_bf16_supported()
b = cuda.is_bf16_supported()
c = is_bf16_supported()
d = is_torch_bf16_gpu_available()
