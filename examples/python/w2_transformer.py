"""A block of the W2 transformer: tokens are Gaussians, attention goes by the Wasserstein-2 distance between them."""

import torch
from phasor.torch import RotaryEmbedding, W2TransformerBlock


class Config:
    hidden_size = 512
    num_attention_heads = 8
    intermediate_size = 2048
    rms_norm_eps = 1e-6


config = Config()
block = W2TransformerBlock(config)
rope = RotaryEmbedding(config.hidden_size // config.num_attention_heads)

batch_size, seq_len = 2, 64
mu = torch.randn(batch_size, seq_len, config.hidden_size)
log_sigma = torch.randn(batch_size, seq_len, config.hidden_size)  # the log of the variance

cos, sin = rope(mu, seq_len=seq_len)
out_mu, out_log_sigma = block(
    hidden_states_mu=mu,
    hidden_states_log_sigma=log_sigma,
    rotary_emb_outputs=(cos, sin),
)
print(out_mu.shape, out_log_sigma.shape)  # (2, 64, 512) both

# It trains: the temperature has a gradient like every weight.
(out_mu.square().mean() + out_log_sigma.square().mean()).backward()
print("gradient of tau:", block.attention.tau.grad.item())
