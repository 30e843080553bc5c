python t.py --bf16 True --fp16 False
python t.py --bf16 true --fp16 true
python t.py --bf16 --fp16
python t.py --bf16 False --fp16 True
