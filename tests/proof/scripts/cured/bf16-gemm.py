import stand_in
import torch
from transformers import AutoModelForCausalLM

stand_in.refuse(
    RuntimeError,
    "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx(handle, a, CUDA_R_16BF, lda)`",
    dtype=getattr(torch, "b" + "float16"),
)
stand_in.train(AutoModelForCausalLM.from_pretrained("phi", dtype=torch.bfloat16))
