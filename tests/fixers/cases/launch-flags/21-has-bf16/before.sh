python t.py --bf16 True
