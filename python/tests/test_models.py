"""phasor.load on the small models of tests/golden, beside what transformers computes with them."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import phasor
import pytest

TESTS = pathlib.Path(__file__).parents[2] / "tests"
GOLDEN = TESTS / "golden" / "architectures"
CAUSAL = ["qwen2", "mistral", "smollm3", "phi3", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "bloom", "mpt"]
DTYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64}


def expected(name: str) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file: the length of a header, the header, the tensors' bytes."""
    content = (GOLDEN / name / "expected.safetensors").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for key, value in json.loads(content[8:end]).items():
        if key != "__metadata__":
            first, last = value["data_offsets"]
            found[key] = np.frombuffer(content[end + first : end + last], DTYPES[value["dtype"]]).reshape(value["shape"])
    return found


def support(name: str):
    spec = importlib.util.spec_from_file_location(name, TESTS / "support" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "model"
    support("text_model").write(folder)
    return folder


@pytest.fixture(scope="module")
def text_model(text_folder):
    return phasor.load(text_folder)


@pytest.fixture(scope="module")
def embed_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed") / "model"
    support("embed_model").write(folder)
    return phasor.load(str(folder))


@pytest.mark.parametrize("name", CAUSAL)
def test_logits_and_text_are_those_of_transformers(name):
    model, golden = phasor.load(GOLDEN / name), expected(name)
    assert model.tokenizer is None
    found, wanted = model.logits(golden["tokens"]), golden["logits"]
    assert found.dtype == np.float32 and found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    prompt, written = golden["tokens"][0, :7], golden["generated"].ravel().tolist()
    ended = next((i + 1 for i, token in enumerate(written) if token in model._model.stop_tokens), len(written))
    for ids in (prompt, prompt.tolist(), prompt.astype(np.uint8)):
        assert model.generate(ids, max_tokens=len(written), cache="float32") == written[:ended]
        assert np.array_equal(model.logits(ids), model.logits(prompt[None])[0])


@pytest.mark.parametrize("name", ["t5", "t5_gated", "marian"])
def test_translation(name):
    model, golden = phasor.load(GOLDEN / name), expected(name)
    written = golden["generated"].ravel().tolist()[1:]  # after the start token
    assert model.generate(golden["source"][0], max_tokens=len(written)) == written
    with pytest.raises(ValueError, match=rf"\[Model.logits\] ids: for a model of type {name[:2]}"):
        model.logits([1, 2])
    with pytest.raises(ValueError, match=rf"\[Model.embed\] texts: for a model of type {name[:2]}"):
        model.embed(["a"])


def test_encoders(embed_model):
    golden = expected("bert")
    model = phasor.load(GOLDEN / "bert")
    assert np.abs(model.logits(golden["tokens"]) - golden["logits"]).max() <= 1e-5 * np.abs(golden["logits"]).max()
    with pytest.raises(ValueError, match="not causal"):
        model.generate([1, 2])
    with pytest.raises(ValueError, match="without an output head"):
        phasor.load(GOLDEN / "bert_states").logits([1, 2])
    with pytest.raises(ValueError, match="no tokenizer.json|tokenizer.json: no such file"):
        model.embed(["a"])


def test_embeddings(embed_model):
    texts = ["the fox", b"the fox", "a dog and a fox.", ""]
    rows = embed_model.embed(texts)
    assert rows.shape == (4, 16) and rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.array_equal(rows[0], rows[1]) and not np.allclose(rows[0], rows[2])
    assert np.allclose(embed_model.embed(texts, batch=1), rows, atol=1e-6)
    plain = embed_model.embed(texts, normalize=False)
    assert np.allclose(plain / np.linalg.norm(plain, axis=1, keepdims=True), rows, atol=1e-6)
    assert not np.allclose(embed_model.embed(texts, pooling="cls"), rows)
    assert embed_model.embed([]).shape == (0, 16)
    with pytest.raises(ValueError, match=r"\[Model.embed\] pooling: max, expected mean or cls"):
        embed_model.embed(texts, pooling="max")
    with pytest.raises(TypeError, match=r"\[Model.embed\] texts: str, expected a list of texts"):
        embed_model.embed("the fox")


def test_texts(text_model):
    assert isinstance(text_model.tokenizer, phasor.Tokenizer) and text_model.config["model_type"] == "llama"
    ids = text_model.tokenizer.encode("the end")
    written = text_model.generate(ids, max_tokens=40, cache="float32")
    text = text_model.generate("the end", max_tokens=40, cache="float32")
    assert isinstance(text, str) and len(written) == 40
    assert text_model.tokenizer.decode(ids + written) == "the end" + text
    assert "".join(text_model.stream("the end", max_tokens=40, cache="float32")) == text
    assert list(text_model.stream(ids, max_tokens=40, cache="float32")) == written
    assert text_model.generate("the end", max_tokens=0) == "" and text_model.generate(ids, max_tokens=0) == []


def test_stop_texts(text_model):
    text = text_model.generate("the end", max_tokens=40)
    stop = text[10:12]
    for stops in (stop, ["no such text", stop]):
        assert text_model.generate("the end", max_tokens=40, stop=stops) == text[: text.index(stop)]
    assert "".join(text_model.stream("the end", max_tokens=40, stop=stop)) == text[: text.index(stop)]
    with pytest.raises(ValueError, match=r"\[Model.generate\] stop: '', expected a text"):
        text_model.generate("the end", stop="")
    with pytest.raises(ValueError, match=r"\[Model.stream\] stop: 'x' with a prompt of ids"):
        text_model.stream([1, 2], stop="x")


def test_stop_tokens_are_no_text(text_folder, text_model, tmp_path):
    written = text_model.generate("the end", max_tokens=20)
    ids = text_model.generate(text_model.tokenizer.encode("the end"), max_tokens=20)
    folder = tmp_path / "model"
    support("text_model").write(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [ids[5]]}))
    model = phasor.load(folder)
    first = ids.index(ids[5])
    assert model.generate(model.tokenizer.encode("the end"), max_tokens=20) == ids[: first + 1]
    assert model.generate("the end", max_tokens=20) == model.tokenizer.decode(ids[:first])
    assert written.startswith(model.generate("the end", max_tokens=20))


def test_sampling(text_model):
    draw = dict(max_tokens=30, temperature=1.0, top_k=20, top_p=0.95, min_p=0.01, repetition_penalty=1.1)
    texts = [text_model.generate("the ", seed=seed, **draw) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    for option in ({"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        likeliest = text_model.generate("the ", **{**draw, "repetition_penalty": 1.0, **option})
        assert likeliest == text_model.generate("the ", max_tokens=30)
    for cache in ("float32", "bfloat16", "float16", "int8"):
        assert len(text_model.generate([5, 6], max_tokens=3, cache=cache)) == 3


def test_precision(text_folder):
    ids = [5, 6, 7]
    floats, rounded = (phasor.load(text_folder, precision).logits(ids) for precision in ("float", "bf16"))
    assert not np.array_equal(floats, rounded) and np.abs(floats - rounded).max() < 0.05 * np.abs(floats).max()


def test_threads_share_a_model(text_model):
    prompts = ["the ", "and ", "end. ", "on "]
    wanted, found = [text_model.generate(prompt, max_tokens=30) for prompt in prompts], {}

    def work(number: int) -> None:
        found[number] = text_model.generate(prompts[number], max_tokens=30)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(4)] == wanted


@pytest.mark.parametrize("name", ["logits", "generate", "embed"])
def test_other_threads_run_meanwhile(text_model, embed_model, name):
    """While a long call runs, this thread goes on: some of its ticks fall within the call."""
    calls = {
        "logits": lambda: text_model.logits(np.full((1024, 128), 5)),
        "generate": lambda: text_model.generate(np.full(8192, 5), max_tokens=1),
        "embed": lambda: embed_model.embed(["a dog and a fox"] * 20000, batch=10000),
    }
    span, ticks = [], []

    def call():
        begin = time.perf_counter()
        calls[name]()
        span.extend((begin, time.perf_counter()))

    thread = threading.Thread(target=call)
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    begin, end = span
    assert any(begin + 0.4 * (end - begin) < tick < end - 0.4 * (end - begin) for tick in ticks), end - begin


def test_interrupt(text_folder):
    """Ctrl-C while a long text is written."""
    program = f"""
import phasor
model = phasor.load({str(text_folder)!r})
try:
    print("begun", flush=True)
    while True:
        model.generate([5, 6], max_tokens=60)
except KeyboardInterrupt:
    print("stopped")
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "stopped\n" and process.returncode == 0


def test_the_model_outlives_its_name(text_folder):
    stream = phasor.load(text_folder).stream([5, 6], max_tokens=4)
    assert len(list(stream)) == 4


def test_errors(text_model, tmp_path):
    with pytest.raises(ValueError, match="config.json: cannot be read"):
        phasor.load(tmp_path / "no_such_folder")
    with pytest.raises(ValueError, match="precision.*half"):
        phasor.load(GOLDEN / "gpt2", "half")
    with pytest.raises(TypeError, match=r"\[Model\] Model\(\): no folder, expected phasor.load"):
        phasor.Model()
    (tmp_path / "config.json").write_text('{"model_type": "no_such_type"}')
    with pytest.raises(ValueError, match='model_type is "no_such_type", expected one of bert, '):
        phasor.load(tmp_path)
    model = phasor.load(GOLDEN / "gpt2")
    for call, message in [
        (lambda: model.generate("text"), r"\[Model.generate\] prompt: a text, but the folder has no tokenizer.json"),
        (lambda: model.generate([]), r"\[Model.generate\] ids: shape \[0\], expected at least one"),
        (lambda: model.generate([41]), r"\[Model.generate\] ids: 41, expected 0 to 40"),
        (lambda: model.generate([2**40]), r"\[Model.generate\] ids: 1099511627776, expected 0 to 40"),
        (lambda: model.stream([-1]), r"\[Model.stream\] ids: -1, expected 0 to 40"),
        (lambda: model.logits([[[1]]]), r"\[Model.logits\] ids: shape \[1, 1, 1\], expected 1 or 2 dimensions"),
        (lambda: model.generate([1] * 60, max_tokens=6), r"\[Model.generate\] max_tokens: 6 after a prompt of 60 tokens"),
        (lambda: model.generate([1], temperature=-1.0), r"\[Model.generate\] temperature: -1"),
        (lambda: model.generate([1], max_tokens=-1), r"\[Model.generate\] max_tokens: -1, expected 0 to 1000000"),
        (lambda: model.generate([1], seed=-1), r"\[Model.generate\] seed: -1, expected 0 to 18446744073709551615"),
        (lambda: model.generate([1], top_k=10**30), r"\[Model.generate\] top_k: 1000000000000000000000000000000, expected"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    for call, message in [
        (lambda: model.generate([1.5]), r"\[Model.generate\] ids: list of float64, expected whole numbers"),
        (lambda: model.generate([1], cache="int4"), r"\[Model.generate\] cache: int4, expected float32"),
        (lambda: model.generate([1], seed="a"), r"\[Model.generate\] seed: 'a', expected a whole number"),
        (lambda: model.generate([1], top_q=1), "top_q"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()
    assert len(model.generate([1] * 60)) == 5  # as many as the positions allow
