use("title", "bf16")
use(1, "bfloat16")
names = ["run", "bf16"]
more = ["--name", "bf16"]
table[("dtype", "bf16")] = 1
x = "bf16"
x += "bf16"
return_value = f(*["bf16"])
