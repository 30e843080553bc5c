import lightning as L

a = L.Fabric(dtype="bf16")
b = Trainer(precision="bf16")
c = ["bf16"] if x else dict(precision="bf16")
precision = L.pick("bf16" if x else "32")
