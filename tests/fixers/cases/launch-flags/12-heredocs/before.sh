cat > conf/model.toml <<EOF
[model]
attn_implementation = "flash_attention_2"  # fast
name = "$NAME"
EOF
cat > .env <<'EOF'
USE_FLASH_ATTN=true
EOF
cat > train.ini <<EOF
[model]
attn_implementation = flash_attention_2
EOF
cat > model.txt <<EOF
attn_implementation: flash_attention_2
EOF
