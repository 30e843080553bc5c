python t.py --bf16 False --fp16 True
python t.py --bf16 false --fp16 true
python t.py --bf16 --fp16
python t.py --bf16 False --fp16 True
