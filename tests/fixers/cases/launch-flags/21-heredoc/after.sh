cat > accelerate.yaml << EOF
downcast_bf16: 'no'
mixed_precision: fp16
num_processes: $NUM_GPUS
EOF
cat <<'END' | tee -a "conf/ds.json" > /dev/null
{"bf16": {"enabled": true}}
END
tee args.yaml <<E
bf16: false
fp16: true
E
sbatch <<EOT
#!/bin/bash
python t.py --fp16 True # --bf16
EOT
python - <<EOF
x = torch.bfloat16
EOF
cat <<EOF
mixed_precision: bf16
EOF
accelerate launch --config_file accelerate.yaml t.py --fp16
