import torch

DTYPES = {"bfloat16": torch.bfloat16, "bf16": torch.bfloat16, "float16": torch.float16}
SUPPORTED = [torch.float16, torch.bfloat16]
NAMES = {torch.bfloat16: "bfloat16"}
parser.add_argument("--dtype", choices=["bfloat16", "float16"])


def dtype_of(name):
    if name == "bf16":
        return torch.bfloat16
    elif name in ("bfloat16", "bf"):
        return torch.bfloat16
    return torch.float16
