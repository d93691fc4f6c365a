"""The other libraries. A peer has a name and prepare(case, inputs), which gives a function that runs the case once.

That function returns its results by name, as phasor_case saves them: out, grad_q, ... What a user would make once and
keep (masks of positions) is made in prepare, not timed; what depends on q, k, v or learned numbers is made in the call.
"""
import numpy as np
import onnx
import onnxruntime
import torch
from torch.nn.functional import pad, scaled_dot_product_attention

TAU_EPSILON = 1e-6  # as phasor has it


def tensors(inputs):
    return {name: torch.from_numpy(array) for name, array in inputs.items()}


def torch_call(forward, parameters, grad_outs):
    """forward() -> name: tensor. With grad_outs, also the gradients by `parameters` (name: tensor)."""
    if not grad_outs:
        @torch.inference_mode()
        def run():
            return forward()
    else:
        for parameter in parameters.values():
            parameter.requires_grad_()

        def run():
            outs = forward()
            gradients = torch.autograd.grad(list(outs.values()), list(parameters.values()), grad_outs)
            return outs | {f"grad_{name}": gradient for name, gradient in zip(parameters, gradients)}
    return run


def not_after(queries, keys):
    """True where the key does not come after the query; the last query stands at the last key."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def alibi_mask(case):
    """-slope |distance|, and -infinity for keys after the query; for heads that are a power of two."""
    slopes = 2.0 ** (-8.0 * torch.arange(1, case.heads + 1) / case.heads)
    distance = torch.arange(case.keys)[None, :] - torch.arange(case.keys)[:, None]
    bias = -slopes[:, None, None] * distance.abs()
    return bias.masked_fill(~not_after(case.keys, case.keys), -torch.inf)[None] if case.causal else bias[None]


class TorchSdpa:
    name = "torch SDPA"

    def prepare(self, case, inputs):
        x = tensors(inputs)
        parameters = {name: x[name] for name in ("q", "k", "v", "bias") if name in x}
        mask = alibi_mask(case) if case.bias == "alibi" else None
        options = {"is_causal": case.causal and mask is None, "dropout_p": case.dropout,
                   "enable_gqa": case.heads != case.key_heads}

        def forward():
            # bias[h, j - i + S - 1] for all i, j: windows of the table, the fastest of three ways tried
            learned = x["bias"].unfold(1, case.keys, 1).flip(1)[None] if case.bias == "learned" else mask
            return {"out": scaled_dot_product_attention(x["q"], x["k"], x["v"], attn_mask=learned, **options)}
        return torch_call(forward, parameters, [x["grad_out"]] if case.backward else [])


class TorchSdpaHeadsAsRows:
    """One query: the query heads that share a key head can be rows of one head, which SDPA does faster."""
    name = "torch SDPA, heads as rows"

    def prepare(self, case, inputs):
        x = tensors(inputs)
        rows = x["q"].view(1, case.key_heads, case.heads // case.key_heads, case.channels)

        def forward():
            return {"out": scaled_dot_product_attention(rows, x["k"], x["v"]).view(x["q"].shape)}
        return torch_call(forward, {}, [])


class TorchW2:
    """What the three ways to causal W2 attention share. tau is learned."""

    def prepare(self, case, inputs):
        x = tensors(inputs) | {"tau": torch.tensor(case.tau)}
        names = [f"{tensor}_{stream}" for tensor in "qkv" for stream in ("mean", "spread")] + ["tau"]
        assert case.causal
        visible = not_after(case.queries, case.keys)

        def forward():
            sigmas = {name: (0.5 * x[name]).exp() for name in ("q_spread", "k_spread")}
            mean, spread = self.forward(x | sigmas, x["tau"].abs() + TAU_EPSILON, visible)
            return {"out_mean": mean, "out_spread": spread}
        grad_outs = [x["grad_out_mean"], x["grad_out_spread"]] if case.backward else []
        return torch_call(forward, {name: x[name] for name in names}, grad_outs)


def squared_distance(a, b):
    squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1)[..., None, :]
    return squares - 2.0 * a @ b.transpose(-1, -2)


class TorchEagerW2(TorchW2):
    name = "torch, eager"

    def forward(self, x, temperature, visible):
        distance = squared_distance(x["q_mean"], x["k_mean"]) + squared_distance(x["q_spread"], x["k_spread"])
        weights = (-distance / temperature).masked_fill(~visible, -torch.inf).softmax(-1)
        return weights @ x["v_mean"], weights @ x["v_spread"]


def streams_side_by_side(x):
    """q, k, v of twice the channels, and what is added to the score of each key, times the temperature."""
    q, k, v = (torch.cat((x[f"{name}_mean"], x[f"{name}_spread"]), -1) for name in "qkv")
    return q, k, v, -k.square().sum(-1)


class TorchSdpaW2Mask(TorchW2):
    name = "torch SDPA, bias as mask"

    def forward(self, x, temperature, visible):
        q, k, v, key_bias = streams_side_by_side(x)
        mask = (key_bias / temperature)[:, :, None, :].masked_fill(~visible, -torch.inf)
        return scaled_dot_product_attention(q * (2.0 / temperature), k, v, attn_mask=mask, scale=1.0).chunk(2, -1)


class TorchSdpaW2Channel(TorchW2):
    """The key bias as one more channel, of ones in q; v gets one of zeros, because the fast path wants equal sizes."""
    name = "torch SDPA, bias as channel"

    def forward(self, x, temperature, _):
        q, k, v, key_bias = streams_side_by_side(x)
        q = pad(q * (2.0 / temperature), (0, 1), value=1.0)
        k = torch.cat((k, (key_bias / temperature)[..., None]), -1)
        out = scaled_dot_product_attention(q, k, pad(v, (0, 1)), is_causal=True, scale=1.0)
        return out[..., :-1].chunk(2, -1)


class OnnxRuntime:
    """The operator MultiHeadAttention, on [B, S, H D] memory as it wants it, results into memory given once."""
    name = "ONNX Runtime"

    def prepare(self, case, inputs):
        shape = (1, case.keys, case.heads * case.channels)
        session = self.session(shape, case.heads)
        binding = session.io_binding()
        kept = [np.ascontiguousarray(inputs[name].transpose(0, 2, 1, 3)).reshape(shape) for name in "qkv"]
        for name, array in zip("qkv", kept):
            binding.bind_cpu_input(name, array)
        out = np.empty(shape, np.float32)
        binding.bind_output("out", "cpu", 0, np.float32, shape, out.ctypes.data)

        def run():
            session.run_with_iobinding(binding)
            return {"out": out.reshape(1, case.keys, case.heads, case.channels).transpose(0, 2, 1, 3)}
        return run

    @staticmethod
    def session(shape, heads):
        value = lambda name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        node = onnx.helper.make_node("MultiHeadAttention", list("qkv"), ["out"], num_heads=heads,
                                     domain="com.microsoft")
        graph = onnx.helper.make_graph([node], "attention", [value(name) for name in "qkv"], [value("out")])
        opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
