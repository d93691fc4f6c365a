"""phasor as an attention implementation of Hugging Face transformers.

    import phasor.transformers
    phasor.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="phasor")

Training, generation with any cache, and everything else stay transformers'. Models that compute attention in code of
their own instead of calling transformers' attention interface (BLOOM, MPT, Falcon) raise ValueError when they are made.
What phasor cannot do (tensors on a GPU, float64, attention weights as outputs) goes to the model's own eager function,
with a warning that says why.
"""

from phasor._errors import require

require("torch", "phasor.transformers")
require("transformers", "phasor.transformers")

from phasor.transformers._register import VERSIONS, register

__all__ = ["VERSIONS", "register"]
