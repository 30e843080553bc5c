model = model.bfloat16()
x = batch["x"].bfloat16().cuda()
y = make(bfloat16=1).bfloat16
