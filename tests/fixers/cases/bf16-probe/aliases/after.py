import torch as t
from torch import cuda
from torch.cuda import is_bf16_supported
from transformers.utils import is_torch_bf16_gpu_available

a = t.cuda.is_available() and t.cuda.get_device_capability() >= (8, 0)
b = cuda.is_available() and cuda.get_device_capability() >= (8, 0)
c = t.cuda.is_available() and t.cuda.get_device_capability() >= (8, 0)
d = t.cuda.is_available() and t.cuda.get_device_capability() >= (8, 0)
