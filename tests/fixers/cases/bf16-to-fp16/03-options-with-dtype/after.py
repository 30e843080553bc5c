import torch
from transformers import AutoModelForCausalLM

kwargs = {"dtype": torch.float16, "revision": "main"}
a = AutoModelForCausalLM.from_pretrained("m", **kwargs)
more = dict(torch_dtype=torch.float16)
b = AutoModelForCausalLM.from_pretrained("m", **more)
later = {}
later["torch_dtype"] = torch.float16
c = AutoModelForCausalLM.from_pretrained("m", **later)
d = AutoModelForCausalLM.from_pretrained("m", **{"dtype": torch.float16})
auto = {"dtype": "float16"}
e = AutoModelForCausalLM.from_pretrained("m", **auto)
other = dict(revision="main")
f = AutoModelForCausalLM.from_pretrained("m", **other)
g = AutoModelForCausalLM.from_pretrained("m", **get_options())
