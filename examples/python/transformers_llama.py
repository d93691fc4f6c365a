"""A model of Hugging Face transformers with phasor as its attention: training, then generation.

The model is small and has random weights, so nothing is downloaded; for real ones see the line with from_pretrained.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import phasor.transformers

phasor.transformers.register()
torch.manual_seed(0)

# model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", attn_implementation="phasor")
config = LlamaConfig(
    vocab_size=64,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
config._attn_implementation = "phasor"  # what from_pretrained does with its argument
model = LlamaForCausalLM(config)

# Sequences that repeat their first 6 tokens; the second is shorter, and padded on the left.
pattern = torch.randint(3, 64, (2, 6))
tokens = pattern.repeat(1, 4)
mask = torch.ones_like(tokens)
tokens[1, :6], mask[1, :6] = 0, 0

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    loss = model(tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100)).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.3f}")

model.eval()
prompt = {"input_ids": tokens[:, :18], "attention_mask": mask[:, :18]}
written = model.generate(**prompt, max_new_tokens=6, do_sample=False, cache_implementation="static")
print("goes on with the pattern:", torch.equal(written[:, 18:], pattern))

model.set_attn_implementation("eager")
print("same tokens:", torch.equal(model.generate(**prompt, max_new_tokens=6, do_sample=False), written))
