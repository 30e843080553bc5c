python - <<'PY'
from transformers import AutoModel

AutoModel.from_pretrained("model", attn_implementation="flash_attention_2")
PY
