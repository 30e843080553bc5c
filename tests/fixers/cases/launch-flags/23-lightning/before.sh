PRECISION=bf16-true
python train.py --trainer.precision bf16-true
python train.py --precision=$PRECISION
echo bf16-true
