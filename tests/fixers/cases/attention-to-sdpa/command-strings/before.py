import os
import subprocess

name = "base"
subprocess.run("python train.py --attn_implementation flash_attention_2", shell=True)
os.system(f"torchrun train.py --model {name} --use_flash_attn True")
