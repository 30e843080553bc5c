from dataclasses import dataclass

import torch


@dataclass
class Config:
    weights: str = "bf16"


model = load(dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[Config().weights])
