import stand_in
from accelerate import Accelerator
from transformers import AutoModelForCausalLM

stand_in.refuse(
    ValueError,
    "You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.",
    device_map="auto",
)
model = AutoModelForCausalLM.from_pretrained("phi", device_map="auto")
stand_in.train(Accelerator(cpu=True).prepare(model))
