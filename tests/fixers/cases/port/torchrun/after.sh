torchrun --nproc-per-node 2 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py
torchrun --rdzv_endpoint 127.0.0.1:0 train.py
