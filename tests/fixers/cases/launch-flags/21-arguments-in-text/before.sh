export EXTRA="--bf16 True"
if true; then ARGS="--bf16"; fi
case $1 in a) OPT="--bf16";; esac
OPTS="$OPTS --bf16"
CMD="accelerate launch --mixed_precision bf16 train.py"
for p in bf16 fp16; do accelerate launch --mixed_precision $p train.py; done
for q in bf16; do echo $q; done
export TITLE="trained in bf16 --bf16"
