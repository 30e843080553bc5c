export ATTN_IMPLEMENTATION="flash_attention_2"
KERNEL=${KERNEL:-flash_attention_2}
NOTE=flash_attention_2
python train.py --attn_implementation $KERNEL
python eval.py --attn_implementation "${OTHER:-flash_attention_2}"
echo $NOTE
