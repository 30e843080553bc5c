import os
import subprocess
import sys

os.environ["ATTN_IMPLEMENTATION"] = "sdpa"
os.environ["USE_FLASH_ATTENTION"] = "0"
os.environ.update(USE_FLASH_ATTN="False", OTHER="1")
child = {**os.environ, "FLASH_ATTN": "no"}
switch = os.environ.get("USE_FLASH_ATTENTION_2", "0") == "1"
command = [sys.executable, "train.py", "--attn_implementation=sdpa", "--flash_attn=false"]
command += ["--use_flash_attn", "False", "--seed", "1"]
subprocess.run([*command, "--use-flash-attn", "--bf16"], env=child)
