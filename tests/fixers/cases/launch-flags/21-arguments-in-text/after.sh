export EXTRA="--fp16 True"
if true; then ARGS="--fp16"; fi
case $1 in a) OPT="--fp16";; esac
OPTS="$OPTS --fp16"
CMD="accelerate launch --mixed_precision fp16 train.py"
for p in bf16 fp16; do accelerate launch --mixed_precision $p train.py; done
for q in bf16; do echo $q; done
export TITLE="trained in bf16 --bf16"
