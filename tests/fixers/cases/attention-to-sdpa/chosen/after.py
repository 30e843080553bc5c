model = AutoModel.from_pretrained("m", attn_implementation="sdpa", trust_remote_code=True)
model = AutoModel.from_pretrained("m", use_flash_attention_2=False)
config._attn_implementation = 'sdpa'
config = {"attn_implementation": "sdpa", "use_flash_attn": False}
parser.add_argument("--attn_implementation", default="sdpa", choices=["sdpa", "flash_attention_2"])
command = ["swift", "sft", "--attn_impl", "sdpa"]
args = make(attn_implementation="sdpa", padding_free=False)
attn_impl = "flash_attention_2" if is_flash_attn_2_available() else "sdpa"
args.use_flash_attn = False


def load(attn_implementation="sdpa"):
    return attn_implementation


model = load()
