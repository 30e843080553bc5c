echo 'it
python t.py --bf16
