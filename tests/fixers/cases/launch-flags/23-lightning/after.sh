PRECISION=16-mixed
python train.py --trainer.precision 16-mixed
python train.py --precision=$PRECISION
echo bf16-true
