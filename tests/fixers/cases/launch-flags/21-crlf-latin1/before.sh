# café
python t.py --bf16 True \
  --tf32 True
