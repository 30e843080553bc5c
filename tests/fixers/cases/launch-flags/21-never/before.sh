# python t.py --bf16
if [[ "$dtype" == bf16 ]]; then echo yes; fi
[ "$1" = --bf16 ] && grep -- --bf16 log.txt
case "$p" in bf16) x=1;; esac
mkdir -p out/bf16 --parents
python t.py --no_bf16 --bf16 False --downcast_bf16 True --output bf16 --tags bf16 fp16
printf '%s\n' --bf16 True
pip install bf16-tools
