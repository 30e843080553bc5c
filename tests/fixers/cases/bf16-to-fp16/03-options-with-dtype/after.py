import torch
from transformers import AutoModel

kwargs = {"dtype": torch.float16, "revision": "main"}
a = AutoModel.from_pretrained("m", **kwargs)
more = dict(torch_dtype=torch.float16)
b = AutoModel.from_pretrained("m", **more)
later = {}
later["torch_dtype"] = torch.float16
c = AutoModel.from_pretrained("m", **later)
d = AutoModel.from_pretrained("m", **{"dtype": torch.float16})
auto = {"dtype": "float16"}
e = AutoModel.from_pretrained("m", **auto)
other = dict(revision="main")
f = AutoModel.from_pretrained("m", **other)
g = AutoModel.from_pretrained("m", **get_options())
