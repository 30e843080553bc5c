accelerate launch --multi_gpu --num_processes 2 train.py
accelerate launch \
  --num_processes=4 train.py
accelerate launch --main_process_port 29500 train.py
accelerate launch --main_process_port "29500" --use_fsdp train.py
venv/bin/accelerate launch --use_deepspeed true train.py
