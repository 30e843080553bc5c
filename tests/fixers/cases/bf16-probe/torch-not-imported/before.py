from transformers.utils import is_torch_bf16_gpu_available

d = is_torch_bf16_gpu_available()
