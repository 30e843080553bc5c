import stand_in
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

stand_in.refuse(
    RuntimeError,
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    device_map="auto",
)
model = AutoModelForCausalLM.from_pretrained("phi", device_map="auto")
stand_in.train(Accelerator(cpu=True).prepare(model))
