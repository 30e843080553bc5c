export ATTN_IMPLEMENTATION="sdpa"
KERNEL=${KERNEL:-sdpa}
NOTE=flash_attention_2
python train.py --attn_implementation $KERNEL
python eval.py --attn_implementation "${OTHER:-sdpa}"
echo $NOTE
