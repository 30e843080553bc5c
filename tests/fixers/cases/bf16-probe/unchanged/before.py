import torch

a = torch.cuda.is_bf16_supported(including_emulation=False)
b = mine.is_bf16_supported()  # torch.cuda.is_bf16_supported()

if torch.cuda.is_bf16_supported():
    print("=" * 20)
    print("Your GPU supports bfloat16: use --bf16")
