# café
python t.py --fp16 True \
  --tf32 False
