PREC="bf16"
DTYPE=${2:-bfloat16}
LOG=bf16
python t.py --mixed_precision "$PREC" --torch_dtype $DTYPE --precision ${P:-bf16} --name $LOG
MODEL_DTYPE=bfloat16
