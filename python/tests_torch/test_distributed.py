"""DistributedDataParallel over gloo: two processes train a W2TransformerBlock as one does on the whole batch."""

from __future__ import annotations

from types import SimpleNamespace

import phasor.torch
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

CONFIG = SimpleNamespace(hidden_size=32, num_attention_heads=4, intermediate_size=48, rms_norm_eps=1e-6)
STEPS, BATCH, TOKENS = 3, 4, 11


def train(block, rows):
    """Losses and the last gradients of a few steps on the given rows of each batch."""
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    tables = phasor.torch.RotaryEmbedding(8)(torch.empty(0), seq_len=TOKENS)
    generator = torch.Generator().manual_seed(5)
    mu, log_sigma, target = torch.randn(3, BATCH, TOKENS, 32, generator=generator)[:, rows]
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        out_mu, out_log_sigma = block(mu, log_sigma, tables, is_causal=True)
        loss = (out_mu - target).square().mean() + out_log_sigma.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name.removeprefix("module."): p.grad for name, p in block.named_parameters()}


def make_block():
    torch.manual_seed(8)
    return phasor.torch.W2TransformerBlock(CONFIG)


def work(rank, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    rows = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    torch.save(train(DistributedDataParallel(make_block()), rows), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_train_as_one(tmp_path):
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    losses, gradients = train(make_block(), slice(None))
    assert losses[-1] < losses[0]
    (losses_0, gradients_0), (losses_1, gradients_1) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    torch.testing.assert_close([(a + b) / 2 for a, b in zip(losses_0, losses_1)], losses, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == gradients_0.keys()
    for name, true in gradients.items():
        assert true.abs().max() > 0
        assert torch.equal(gradients_0[name], gradients_1[name])
        torch.testing.assert_close(gradients_0[name], true, rtol=1e-4, atol=1e-6)
