import torch

settings = {"compute": torch.float16, "master": torch.float32, "steps": 4}
kwargs = {"compute": torch.float16, "attention": "eager", "reduce": torch.float32}
table = {"low": torch.bfloat16, "middle": torch.float16, "high": torch.float32}
command = ["accelerate", "launch", "--mixed_precision", "fp16", "--num_processes", "16", "train.py"]
choices = ["no", "fp16", "bf16"]
