# accelerate launch --multi_gpu x
accelerate launch --num_processes 1 train.py
accelerate launch train.py
accelerate launch --multi_gpu --main_process_port 12355 train.py
accelerate launch --multi_gpu --main_process_port $PORT train.py
accelerate launch --multi_gpu --num_machines 2 --machine_rank 0 --main_process_port 29500 train.py
accelerate launch --config_file acc.yaml --num_processes 2 train.py
accelerate config --main_process_port 1
torchrun --nnodes 2 --rdzv-endpoint=localhost:29500 train.py
torchrun --rdzv-endpoint=node0:29500 train.py
echo 29500
