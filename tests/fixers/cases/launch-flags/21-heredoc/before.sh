cat > acc.yaml <<EOF
mixed_precision: bf16
EOF
python t.py --bf16
