"""The configurations that make_goldens.py measures, and those it expects transformers to refuse.

A released model's name means: the keys that matter here, as they stand in that model's config.json.
Where the model has no class in transformers, or a value is not public, a note says so.
cases(case) calls case(name, config, positions=, layer_type=, length=, axes=, note=) for each.
"""

LONG = (0, 1, 2, 1000, 8191, 32767, 131071, 1048575)         # for the float32 parity test
LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
YARN4 = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
YARN40 = {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}
YARN16 = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048}
SHORT, LONGER = [round(1 + 0.02 * i, 2) for i in range(48)], [round(1 + 0.03 * i * i, 2) for i in range(48)]
LONGROPE = {"type": "longrope", "short_factor": SHORT, "long_factor": LONGER}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
TEXT3 = [[0, 1, 2, 2, 2, 2, 7], [0, 1, 2, 2, 9, 50, 7], [0, 1, 2, 3, 4, 1000, 7]]   # t, h, w of seven tokens
GRID = [[0, 0, 1, 5, 63], [0, 1, 0, 9, 40]]                                           # row, column of five patches
FULL, SLIDING = "full_attention", "sliding_attention"


def model(model_type, hidden_size, num_attention_heads, **more):
    return {"model_type": model_type, "hidden_size": hidden_size, "num_attention_heads": num_attention_heads, **more}


def llama(**more):
    """A plain Llama shape: heads of 128 channels, context 2048."""
    return model("llama", 4096, 32, **{"max_position_embeddings": 2048, **more})


def yarn(**more):
    return llama(max_position_embeddings=32768, rope_theta=10000.0, rope_scaling={**YARN16, **more})


def deepseek(model_type, hidden, heads, theta, rope, **more):
    return model(model_type, hidden, heads, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                 max_position_embeddings=163840, rope_theta=theta, rope_scaling=rope, **more)


def phi3(scaling, **more):
    return model("phi3", 3072, 32, **{"max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
                                      "rope_theta": 10000.0, "rope_scaling": scaling, **more})


def gemma3(**more):
    return model("gemma3_text", 2560, 8, num_hidden_layers=6, head_dim=256, max_position_embeddings=131072, **more)


def cases(case):
    # released models
    yield case("llama-2-7b", model("llama", 4096, 32, max_position_embeddings=4096, rope_scaling=None), LONG)
    llama31 = model("llama", 4096, 32, num_key_value_heads=8, max_position_embeddings=131072)
    yield case("llama-3.1-8b", {**llama31, "rope_theta": 500000.0, "rope_scaling": LLAMA31}, LONG)
    yield case("llama-3.1-8b rope_parameters", {**llama31, "rope_parameters": {**LLAMA31, "rope_theta": 500000.0}})
    for name, hidden, heads, dim in (("1b", 2048, 32, 64), ("3b", 3072, 24, 128)):
        yield case(f"llama-3.2-{name}", model("llama", hidden, heads, head_dim=dim, max_position_embeddings=131072,
                                              rope_theta=500000.0, rope_scaling={**LLAMA31, "factor": 32.0}))
    yield case("llama-4-scout", model("llama4_text", 5120, 40, head_dim=128, max_position_embeddings=10485760,
               rope_theta=500000.0, rope_scaling={**LLAMA31, "factor": 16.0, "high_freq_factor": 1.0}),
               note="low_freq_factor equals high_freq_factor: the smooth band is empty")
    yield case("apertus-8b", model("apertus", 4096, 32, max_position_embeddings=65536), note="all from defaults")
    qwen3 = model("qwen3", 4096, 32, head_dim=128, max_position_embeddings=40960, rope_theta=1000000)
    yield case("qwen3-8b", {**qwen3, "rope_scaling": None})
    yield case("qwen3-8b yarn", {**qwen3, "rope_scaling": YARN4}, LONG)
    yield case("qwen3-8b yarn rope_parameters", {**qwen3, "rope_parameters": {**YARN4, "rope_theta": 1000000}})
    yield case("qwen2.5-7b yarn", model("qwen2", 3584, 28, max_position_embeddings=32768, rope_theta=1000000.0,
               rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}))
    oss = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
           "original_max_position_embeddings": 4096}
    for cut in (False, True):
        yield case("gpt-oss-20b" + (" truncate" if cut else ""), model("gpt_oss", 2880, 64, head_dim=64,
                   max_position_embeddings=131072, rope_theta=150000, rope_scaling={**oss, "truncate": cut}))
    for name, kind, hidden, heads, m in (("v2-lite", "deepseek_v2", 2048, 16, 0.707),
                                         ("v3", "deepseek_v3", 7168, 128, 1.0)):
        yield case("deepseek-" + name, deepseek(kind, hidden, heads, 10000, {**YARN40, "mscale": m, "mscale_all_dim": m}))
    yield case("deepseek-v3 rope_interleave false", deepseek("deepseek_v3", 7168, 128, 10000, None, rope_interleave=False))
    yield case("kimi-k2.5", deepseek("deepseek_v3", 7168, 64, 50000.0, {**YARN40, "factor": 64.0, "mscale": 1.0,
               "mscale_all_dim": 1.0}), note="its text model is a DeepSeek-V3")
    v4 = model("deepseek_v4", 4096, 64, head_dim=512, qk_rope_head_dim=64, num_hidden_layers=4, rope_theta=10000,
               compress_rope_theta=160000, max_position_embeddings=1048576, rope_scaling={
                   "type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 65536})
    for kind in ("main", "compress"):
        yield case("deepseek-v4 " + kind, v4, layer_type=kind)
    yield case("ministral-3-8b", model("ministral3", 4096, 32, head_dim=128, max_position_embeddings=262144,
               rope_parameters={"rope_type": "yarn", "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
                                "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                "llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 16384}))
    olmo = model("olmo3", 5120, 40, num_hidden_layers=4, max_position_embeddings=65536, rope_theta=500000, rope_scaling={
        "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.2079441541679836,
        "original_max_position_embeddings": 8192})
    for kind in (FULL, SLIDING):
        yield case("olmo-3-32b-think " + kind, olmo, layer_type=kind, note="scaling is for full_attention only")
    laguna = {FULL: {"rope_type": "yarn", "rope_theta": 500000.0, "partial_rotary_factor": 0.5, "factor": 64.0,
                     "attention_factor": 1.0, "beta_fast": 64.0, "beta_slow": 1.0, "original_max_position_embeddings": 4096},
              SLIDING: {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}
    for kind in (FULL, SLIDING):
        yield case("laguna-xs.2 " + kind, model("laguna", 2048, 48, head_dim=128, num_hidden_layers=4,
                   layer_types=[FULL, SLIDING] * 2, max_position_embeddings=262144, rope_parameters=laguna),
                   layer_type=kind, note="betas and original length are assumed")
    for length in (4096, 4097):
        yield case(f"phi-3-mini-128k {length}", phi3(LONGROPE), length=length, note="the factor lists are invented")
    yield case("phi-4-mini 8192", model("phi3", 3072, 24, max_position_embeddings=131072, rope_theta=10000.0,
               original_max_position_embeddings=4096, partial_rotary_factor=0.75, rope_scaling=LONGROPE), length=8192)
    for length in (32768, 40000):
        yield case(f"internlm3-8b {length}", model("llama", 4096, 32, head_dim=128, max_position_embeddings=32768,
                   rope_theta=50000000, rope_scaling={"factor": 6.0, "rope_type": "dynamic"}), length=length,
                   note="no class of its own in transformers: Llama's")
    legacy = gemma3(rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling={"rope_type": "linear", "factor": 8.0})
    nested = gemma3(rope_parameters={FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                                     SLIDING: {"rope_type": "default", "rope_theta": 10000.0}})
    whole = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
             "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}}
    for kind in (FULL, SLIDING):
        yield case("gemma-3-4b legacy keys " + kind, legacy, layer_type=kind)
        yield case("gemma-3-4b rope_parameters " + kind, nested, layer_type=kind)
        yield case("gemma-3 thetas outside " + kind, gemma3(rope_theta=3000000.0, rope_local_base_freq=20000.0,
                   rope_parameters={FULL: {"rope_type": "linear", "factor": 8.0}, SLIDING: {}}), layer_type=kind)
        yield case("gemma-3-4b-it whole file " + kind, whole, layer_type=kind, note="heads and thetas are the defaults")
        yield case("gemma-4 " + kind, model("gemma4_text", 2304, 8, head_dim=256, global_head_dim=512,
                   num_hidden_layers=6, rope_parameters={
                       SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
                       FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}),
                   layer_type=kind)
        yield case("modernbert-base " + kind, model("modernbert", 768, 12, global_rope_theta=160000.0,
                   local_rope_theta=10000.0, max_position_embeddings=8192), layer_type=kind)
        yield case("mimo-v2-flash " + kind, model("mimo_v2_flash", 4096, 64, head_dim=192), layer_type=kind,
                   note="all from defaults: 0.334 of 192 channels is 64")
    yield case("minimind-3", model("qwen3", 768, 8, head_dim=96, max_position_embeddings=32768, rope_theta=1000000.0,
               rope_scaling={**YARN16, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.0}),
               note="no class of its own in transformers: Qwen3's")
    yield case("mistral-nemo-12b", model("mistral", 5120, 32, head_dim=128, max_position_embeddings=131072,
               rope_theta=1000000.0), note="head_dim is not hidden_size / heads")
    yield case("mistral-7b-v0.1", model("mistral", 4096, 32, max_position_embeddings=32768, head_dim=None))
    yield case("smollm3-3b", model("smollm3", 2048, 16, max_position_embeddings=65536, rope_theta=5000000.0))
    yield case("command-r", model("cohere", 8192, 64, max_position_embeddings=8192, rope_theta=8000000.0))
    yield case("ernie-4.5-0.3b", model("ernie4_5", 1024, 16, head_dim=128, rope_theta=500000.0))
    yield case("hunyuan-7b", model("hunyuan_v1_dense", 4096, 32, head_dim=128, max_position_embeddings=32768,
               rope_theta=10000.0, rope_scaling={"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32,
                                                 "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}),
               note="alpha makes a fixed base: theta * alpha^(d/(d-2))")
    # rotating a part of the head
    yield case("gpt-neox-20b", model("gpt_neox", 6144, 64, rotary_pct=0.25, rotary_emb_base=10000))
    yield case("pythia-1b rope_parameters", model("gpt_neox", 2048, 8, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}))
    yield case("phi-2", model("phi", 2560, 32, partial_rotary_factor=0.4, rope_theta=10000.0))
    yield case("phi-1.5 linear", model("phi", 2048, 32, rope_scaling={"type": "linear", "factor": 2.0}))
    yield case("glm-4-9b-0414", model("glm4", 4096, 32, head_dim=128, partial_rotary_factor=0.5, rope_theta=10000.0))
    yield case("glm-4.5 yarn", model("glm4_moe", 5120, 96, head_dim=128, partial_rotary_factor=0.5, rope_theta=1000000,
               rope_scaling=YARN4, max_position_embeddings=131072))
    yield case("stablelm-2-1.6b", model("stablelm", 2048, 32, partial_rotary_factor=0.25, rope_theta=10000))
    yield case("minitron-4b", model("nemotron", 3072, 24, head_dim=128, rope_theta=10000.0), note="0.5 by default")
    yield case("minimax-m2", model("minimax_m2", 3072, 48, head_dim=128, rotary_dim=64, rope_theta=5000000))
    yield case("qwen3-next-80b", model("qwen3_next", 2048, 16, head_dim=256, partial_rotary_factor=0.25,
               rope_theta=10000000))
    # each type by itself, in both spellings
    for factor in (1, 4.0):
        yield case(f"linear {factor}", llama(rope_scaling={"type": "linear", "factor": factor}))
    yield case("linear rope_parameters", llama(rope_parameters={
        "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}))
    yield case("rope_scaling beats rope_parameters", llama(
        rope_theta=20000.0, rope_scaling={"type": "linear", "factor": 4.0},
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 30000.0}))
    yield case("rope_type beats type", llama(rope_scaling={
        "type": "linear", "rope_type": "dynamic", "factor": 4.0}), length=4096)
    yield case("theta inside beats theta outside", llama(rope_theta=20000.0, rope_parameters={"rope_theta": 30000.0}))
    for length in (100, 2047, 2048, 2049, 4096, 8192):
        yield case(f"dynamic {length}", llama(rope_scaling=DYNAMIC), length=length)
    yield case("dynamic factor 4 8192", llama(rope_scaling={**DYNAMIC, "factor": 4.0}), length=8192)
    yield case("dynamic partial", model("phi", 2560, 32, partial_rotary_factor=0.4, max_position_embeddings=2048,
               rope_scaling=DYNAMIC), length=6000)
    for name, more in (("plain", {}), ("not truncated", {"truncate": False}),
                       ("mscale pair", {"mscale": 0.707, "mscale_all_dim": 1.0}),
                       ("mscale alone", {"mscale": 0.707}), ("attention_factor", {"attention_factor": 0.5}),
                       ("low equals high", {"beta_fast": 4.0, "beta_slow": 4.0, "truncate": False}),
                       ("betas", {"beta_fast": 16, "beta_slow": 2}), ("zero betas", {"beta_fast": 0, "beta_slow": 0}),
                       ("factor 1", {"factor": 1.0}), ("null factor", {"factor": None}),
                       ("null truncate", {"truncate": None}),
                       ("long original", {"original_max_position_embeddings": 1048576})):
        yield case("yarn " + name, yarn(**more))
    yield case("yarn original length twice", {**yarn(), "original_max_position_embeddings": 1024},
               note="the outer 1024 wins over the inner 2048")
    yield case("yarn no original length", llama(rope_scaling={"rope_type": "yarn", "factor": 4.0}))
    for name, more in (("factor", {"factor": 16.0}), ("factor below 1", {"factor": 0.5}),
                       ("attention_factor", {"attention_factor": 1.5})):
        yield case("longrope " + name, phi3({**LONGROPE, **more}), length=6000)
    yield case("longrope original length twice", phi3({**LONGROPE, "original_max_position_embeddings": 2048}), length=3000,
               note="the outer 4096 wins over the inner 2048")
    yield case("longrope llama class", llama(head_dim=96, max_position_embeddings=65536, rope_scaling={
        **LONGROPE, "original_max_position_embeddings": 8192}), length=9000)
    yield case("llama3 other factors", llama(max_position_embeddings=65536, rope_theta=10000.0, rope_scaling={
        **LLAMA31, "factor": 4, "low_freq_factor": 2, "high_freq_factor": 16, "original_max_position_embeddings": 4096}))
    for name, more in (("", {"partial_rotary_factor": 0.5}), (" all", {}),
                       (" factor", {"partial_rotary_factor": 0.3, "factor": 2.0})):
        yield case("proportional" + name, llama(rope_parameters={
            "rope_type": "proportional", "rope_theta": 10000.0, **more}))
    # tokens with several coordinates
    mrope = {"type": "mrope", "mrope_section": [16, 24, 24]}
    yield case("qwen2-vl-7b whole file", model("qwen2_vl", 3584, 28, num_key_value_heads=4, max_position_embeddings=32768,
               rope_theta=1000000.0, rope_scaling=mrope), axes=TEXT3)
    yield case("qwen2.5-vl-7b", model("qwen2_5_vl_text", 3584, 28, num_key_value_heads=4, max_position_embeddings=128000,
               rope_theta=1000000.0, rope_scaling={**mrope, "type": "default", "rope_type": "default"}), axes=TEXT3)
    yield case("glm-4.1v-9b", model("glm4v_text", 4096, 32, partial_rotary_factor=0.5, rope_theta=10000.0,
               rope_scaling={"type": "default", "mrope_section": [8, 12, 12]}), axes=TEXT3)
    yield case("qwen3-vl-8b", model("qwen3_vl_text", 4096, 32, head_dim=128, max_position_embeddings=262144, rope_theta=5000000,
               rope_scaling={"rope_type": "default", "mrope_interleaved": True, "mrope_section": [24, 20, 20]}), axes=TEXT3)
    yield case("qwen3.5", model("qwen3_5_text", 4096, 16, head_dim=256, rope_parameters={
        "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25, "mrope_interleaved": True,
        "mrope_section": [11, 11, 10]}), axes=TEXT3)
    yield case("qwen2-vl vision", {"model_type": "qwen2_vl_vision", "embed_dim": 1280, "num_heads": 16}, axes=GRID)
    yield case("pixtral-12b vision", model("pixtral", 1024, 16, head_dim=64, rope_theta=10000.0), axes=GRID)


REJECTED = {
    "linear without factor": llama(rope_scaling={"type": "linear"}),
    "dynamic without factor": llama(rope_scaling={"type": "dynamic"}),
    "yarn without factor": llama(rope_scaling={"type": "yarn", "original_max_position_embeddings": 2048}),
    "llama3 without bands": llama(rope_scaling={"type": "llama3", "factor": 8.0}),
    "longrope without lists": llama(rope_scaling={"type": "longrope", "factor": 4.0}),
    "longrope short list": phi3({**LONGROPE, "short_factor": SHORT[:40]}),
    "longrope list of text": phi3({**LONGROPE, "short_factor": ["1.0"] * 48}),
    "longrope on llama, list of another length": llama(rope_scaling={**LONGROPE, "original_max_position_embeddings": 1024}),
    "unknown type": llama(rope_scaling={"type": "ntk_yarn", "factor": 4.0}),
    "su on llama": llama(rope_scaling={"type": "su", "short_factor": SHORT, "long_factor": LONGER}),
    "mrope on llama": llama(rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]}),
    "null type": llama(rope_scaling={"rope_type": None, "factor": 4.0}),
    "null theta": llama(rope_theta=None),
    "text theta": llama(rope_theta="10000"),
    "text factor": llama(rope_scaling={"type": "linear", "factor": "4"}),
    "null factor": llama(rope_scaling={"type": "linear", "factor": None}),
    "rope_scaling is text": llama(rope_scaling="linear"),
    "rope_scaling is a list": llama(rope_scaling=[1, 2]),
    "rope_parameters is text": llama(rope_parameters="linear"),
    "null theta inside": llama(rope_theta=10000.0, rope_parameters={"rope_type": "default", "rope_theta": None}),
    "null original length": yarn(original_max_position_embeddings=None),
    "llama3 low_freq_factor 0": llama(rope_scaling={**LLAMA31, "low_freq_factor": 0}),
    "null partial inside": model("phi", 2560, 32, rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": None}),
    "nested by layer type in a model with one RoPE": model("qwen3", 4096, 32, rope_parameters={
        FULL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    "gemma4 without theta": model("gemma4_text", 2304, 8, rope_parameters={
        SLIDING: {"rope_type": "default"}, FULL: {"rope_type": "default", "rope_theta": 1000000.0}}),
    "gemma4 with rope_scaling": model("gemma4_text", 2304, 8, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "mrope on qwen3_vl": model("qwen3_vl_text", 4096, 32, rope_scaling={"type": "mrope", "mrope_section": [24, 20, 20]}),
    "odd head": llama(head_dim=127),
    "heads do not divide": model("llama", 4096, 30),
    "no heads": model("llama", 4096, 0),
    "text hidden size": model("llama", "4096", 32),
    "dynamic, rotary dim 2": llama(head_dim=2, rope_scaling=DYNAMIC),
    "yarn theta 1": yarn(rope_theta=1.0),
    "layer types of another length": gemma3(layer_types=[FULL] * 5),
    "unknown layer type": gemma3(layer_types=["global"] * 6),
    "sections do not sum": model("qwen2_vl_text", 3584, 28, rope_scaling={"type": "mrope", "mrope_section": [16, 16, 16]}),
    "axial asks for another type": model("pixtral", 1024, 16, rope_parameters={"rope_type": "linear", "factor": 2.0}),
}
