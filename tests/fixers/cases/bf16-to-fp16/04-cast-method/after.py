model = model.half()
x = batch["x"].half().cuda()
y = make(bfloat16=1).bfloat16
