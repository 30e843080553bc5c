python - <<'PY'
from transformers import AutoModel

AutoModel.from_pretrained("model", attn_implementation="sdpa")
PY
