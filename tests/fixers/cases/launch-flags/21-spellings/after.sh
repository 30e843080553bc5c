python t.py --fp16
python t.py --fp16=true --mixed-precision=fp16 '--dtype' "float16"
python t.py --fp16_full_eval --fp16 True
python t.py --precision 16-mixed --bnb_4bit_compute_dtype=torch.float16
torchrun --nproc-per-node 2 t.py --fp16 "$BF16" --fsdp_reduce_dtype fp32
FOO=1 ACCELERATE_MIXED_PRECISION='fp16' python t.py
env ACCELERATE_MIXED_PRECISION=fp16 python t.py
sbatch --export=ALL,ACCELERATE_MIXED_PRECISION=fp16 job.slurm
