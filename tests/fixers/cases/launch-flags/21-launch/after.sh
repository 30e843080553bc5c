#!/bin/bash
# train with --bf16 True
export ACCELERATE_MIXED_PRECISION=fp16 OTHER="bf16"
accelerate launch --num_processes 1 \
    --mixed_precision fp16 \
    src/train.py --config paper_r64 --fp16 True --tf32 False \
    --torch_dtype float16 --attn_implementation sdpa \
    --output_dir "out/bf16-run" --name "exp bf16 True" # --bf16
echo "started with --bf16" --bf16
