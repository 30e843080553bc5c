python t.py --bf16
python t.py --bf16=true --mixed-precision=bf16 '--dtype' "bfloat16"
python t.py --bf16_full_eval --pure_bf16 True
python t.py --precision bf16-mixed --bnb_4bit_compute_dtype=torch.bfloat16
torchrun --nproc-per-node 2 t.py --bf16 "$BF16" --fsdp_reduce_dtype bf16
FOO=1 ACCELERATE_MIXED_PRECISION='bf16' python t.py
env ACCELERATE_MIXED_PRECISION=bf16 python t.py
sbatch --export=ALL,ACCELERATE_MIXED_PRECISION=bf16 job.slurm
