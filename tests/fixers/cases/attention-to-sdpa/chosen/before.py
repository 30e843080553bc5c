model = AutoModel.from_pretrained("m", attn_implementation="flash_attention_2", trust_remote_code=True)
model = AutoModel.from_pretrained("m", use_flash_attention_2=True)
config._attn_implementation = 'flash_attention_2'
config = {"attn_implementation": "flash_attention_3", "use_flash_attn": True}
parser.add_argument("--attn_implementation", default="flash_attention_2", choices=["sdpa", "flash_attention_2"])
command = ["swift", "sft", "--attn_impl", "flash_attn"]
args = make(attn_implementation="kernels-community/vllm-flash-attn3", padding_free=True)
attn_impl = "flash_attention_2" if is_flash_attn_2_available() else "sdpa"
args.use_flash_attn = True


def load(attn_implementation="flash_attention_2"):
    return attn_implementation


model = load()
