import torch
from transformers import AutoModelForCausalLM as Model

options = {"torch_dtype": "auto", "device_map": "cuda"}
model = Model.from_pretrained("a", **options)
model = Model.from_pretrained("b", **dict(dtype="auto"))
later = {}
later["torch_dtype"] = "auto"
later.update(trust_remote_code=True)
model = Model.from_pretrained("c", **{**later, "revision": "main"})
again = Model.from_pretrained("d", **options)
report = {"torch_dtype": "auto"}
print(report, later["torch_dtype"] == "auto")
