import os
import subprocess
import sys

os.environ["ATTN_IMPLEMENTATION"] = "flash_attention_2"
os.environ["USE_FLASH_ATTENTION"] = "1"
os.environ.update(USE_FLASH_ATTN="True", OTHER="1")
child = {**os.environ, "FLASH_ATTN": "yes"}
switch = os.environ.get("USE_FLASH_ATTENTION_2", "1") == "1"
command = [sys.executable, "train.py", "--attn_implementation=flash_attention_2", "--flash_attn=true"]
command += ["--use_flash_attn", "True", "--seed", "1"]
subprocess.run([*command, "--use-flash-attn", "--bf16"], env=child)
