ARGS=(--fp16 True  # --tf32 True
  --tf32 False)
ARGS+=(--out "$OUT")
OPTS="--fp16 True \
  --out $OUT --attn_impl sdpa --padding_free false"
TITLE="run bf16 with --bf16"
bash -c "python t.py --fp16 --out $OUT"
result=$(python t.py --fp16 | tee log)
( cd x && python t.py --fp16 )
