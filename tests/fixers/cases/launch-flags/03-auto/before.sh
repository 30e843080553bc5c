python train.py --torch_dtype auto --device_map auto
python eval.py model.torch_dtype=auto --dtype auto
