names = ["bf16-true"]
print("bf16-true")
x = f("bf16-true")
