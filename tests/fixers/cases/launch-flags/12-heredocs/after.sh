cat > conf/model.toml <<EOF
[model]
attn_implementation = "sdpa"  # fast
name = "$NAME"
EOF
cat > .env <<'EOF'
USE_FLASH_ATTN=false
EOF
cat > train.ini <<EOF
[model]
attn_implementation = sdpa
EOF
cat > model.txt <<EOF
attn_implementation: flash_attention_2
EOF
