python train.py --dtype bfloat16 --variance-dtype bfloat16 --optim_state_dtype=bf16
