import torch

settings = {"compute": torch.bfloat16, "master": torch.float32, "steps": 4}
kwargs = {"compute": torch.bfloat16, "attention": "eager", "reduce": torch.float32}
table = {"low": torch.bfloat16, "middle": torch.float16, "high": torch.float32}
command = ["accelerate", "launch", "--mixed_precision", "bf16", "--num_processes", "16", "train.py"]
choices = ["no", "fp16", "bf16"]
