class Accelerator:
    def __init__(self, mixed_precision="no"):
        if mixed_precision.startswith("bf"):
            raise ValueError("bf16 mixed precision requires PyTorch >= 1.10 and a supported device.")


accelerator = Accelerator(mixed_precision="bf16")
print("trained")
