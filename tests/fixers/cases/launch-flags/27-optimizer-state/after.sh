python train.py --dtype float16 --variance-dtype float32 --optim_state_dtype=fp32
