ARGS=(--bf16 True  # --tf32 True
  --tf32 True)
ARGS+=(--out "$OUT")
OPTS="--bf16 True \
  --out $OUT --attn_impl flash_attn --padding_free true"
TITLE="run bf16 with --bf16"
bash -c "python t.py --bf16 --out $OUT"
result=$(python t.py --bf16 | tee log)
( cd x && python t.py --bf16 )
