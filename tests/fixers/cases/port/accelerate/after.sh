accelerate launch --main_process_port 0 --multi_gpu --num_processes 2 train.py
accelerate launch --main_process_port 0 \
  --num_processes=4 train.py
accelerate launch --main_process_port 0 train.py
accelerate launch --main_process_port "0" --use_fsdp train.py
venv/bin/accelerate launch --main_process_port 0 --use_deepspeed true train.py
