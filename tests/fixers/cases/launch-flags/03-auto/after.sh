python train.py --torch_dtype float16 --device_map auto
python eval.py model.torch_dtype=float16 --dtype auto
