#!/bin/bash

cat > conf/train.yaml <<EOF
trainer:
  precision: bf16_true
  seed: 1
EOF
python train.py --fp16 True
