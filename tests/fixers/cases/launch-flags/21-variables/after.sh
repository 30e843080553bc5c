PREC="fp16"
DTYPE=${2:-float16}
LOG=bf16
python t.py --mixed_precision "$PREC" --torch_dtype $DTYPE --precision ${P:-fp16} --name $LOG
MODEL_DTYPE=bfloat16
