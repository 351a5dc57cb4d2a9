"""Writes the model card from the manifest. Knows Markdown; measures nothing.

The card has Python that runs the model without the service, on the same token ids. The service reads a Unigram
vocabulary with SentencePiece, which adds scores in 32 bits. `tokenizers` adds them in 64, and cuts "hhhhh" elsewhere
where two ways have nearly one score.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from service.model.artifact import TOKENIZER_FILE, Manifest
from service.model.tokenizer import WHITE_SPACE, Tokenizer

LIMITATIONS = """\
- Text beyond {max_length} tokens is cut: split longer documents before embedding them.
- Only the languages above were trained or measured; others may share scripts and words, but nothing is promised.
- Cosines rank; they are no probabilities, and a threshold that suits one language pair may not suit another.
- The model repeats the biases of its teacher and of its training data.
"""
DYNAMIC_LIMITATION = """\
- Activations are quantised while the graph runs, so embed one text at a time: in a batch, a vector also depends on its
  batch-mates. One at a time it is the same to the bit on the same machine.
"""
STATIC_LIMITATION = """\
- Activations are rounded with steps fixed by calibration texts. Texts of one length may share a batch where the
  processor's arithmetic keeps their vectors to the bit, which the service tries at its start. Padding changes the last
  digits of a vector.
"""
UNPADDED_LIMITATION = """\
- Activations are rounded with steps fixed by calibration texts, and padding is skipped. Texts may share a batch where
  the processor's arithmetic keeps their vectors to the bit, which the service tries at its start, if all rows, those of
  a text alone too, are padded to a multiple of four. Otherwise company changes the last digits of a vector.
"""
UNSCALED = ("min_score", "mining_threshold", "unrelated")  # ends of metrics that are not x 100
SCORES = "(STS: Spearman; Tatoeba: P@1, both directions averaged)"
EVALUATE = "`crosslet evaluate FOLDER --data DIR`"
SUMMARY = """\
A sentence encoder: one text in, one unit vector of {dim} dimensions out; texts that mean the same have a high dot
product, across languages.
"""
USE = """\
With the service, from its repository:

```sh
CROSSLET_MODEL=path/to/this/folder make serve
curl -s localhost:8080/embed -H 'content-type: application/json' -d '{"inputs": ["A man is playing a guitar."]}'
```
"""
RERANKER_SUMMARY = """\
A cross-encoder: a query and a passage in, one score in [0, 1] out, higher where the passage answers the query, across
languages. It puts the best of the passages that a search has found first.
"""
RERANKER_SCORES = "(query-passage; mixed: each query and passage in a language of its own)"
RERANKER_EVALUATE = "`crosslet evaluate FOLDER --data DIR --sets rerank`"
RERANKER_LIMITATIONS = """\
- A pair beyond {max_length} tokens loses the end of its passage: split longer documents, and keep the best score.
- Only the languages above were trained or measured; others may share scripts and words, but nothing is promised.
- Scores rank the passages of one query; they are no probabilities, and those of two queries cannot be compared.
- Score one pair at a time: in a batch, padding and company change the last digits of a score.
- The model repeats the biases of its base and of its training data.
"""
RERANKER_USE = """\
With the service, from its repository:

```sh
CROSSLET_RERANKER=path/to/this/folder make serve
```
"""

PYTHON = """\
With {packages} alone, in this folder{unfolded}:

```python
{standard}

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before it is loaded: ONNX Runtime reports by itself

import numpy as np
import onnxruntime
{imports}

{pieces}
def stripped(text):
    return text.strip({white_space!a}) or text

options = onnxruntime.SessionOptions()
{exactness}session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])

{run}
```
"""
UNFOLDED = " (the service first writes words in capitals small and leaves out vowel marks, `service/model/folding.py`)"
EXACTNESS = """\
options.add_session_config_entry("session.x64quantprecision", "1")  # x86 without VNNI needs it; with VNNI it is slower
"""
TOKENIZERS = """\
tokenizer = tokenizers.Tokenizer.from_file("tokenizer.json")

def pieces(text):
    return tokenizer.encode(text, add_special_tokens=False).ids
"""
SENTENCEPIECE = """\
with open("tokenizer.json", encoding="utf-8") as file:
    state = json.load(file)
normalizer = tokenizers.Tokenizer.from_file("tokenizer.json").normalizer
unknown, special = state["model"]["unk_id"], {token["id"] for token in state["added_tokens"]}
model = sentencepiece_model_pb2.ModelProto()
for number, (piece, score) in enumerate(state["model"]["vocab"]):
    model.pieces.add(piece=piece, score=score, type=2 if number == unknown else 3 if number in special else 1)
model.trainer_spec.model_type, model.trainer_spec.unk_id = 1, unknown
model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
spec = model.normalizer_spec
spec.name = "identity"
spec.add_dummy_prefix = spec.remove_extra_whitespaces = spec.escape_whitespaces = False
vocabulary = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())

def pieces(text):
    text = (normalizer.normalize_str(text) if normalizer else text).replace(" ", "▁")
    return vocabulary.encode(text if not text or text.startswith("▁") else "▁" + text)
"""
EMBED = """\
def embed(text{parameter}):
    ids = np.array([[{before}*pieces({prompt}stripped(text))[:{room}]{after}]])
    return session.run(["sentence_embedding"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0][0]

print(embed("A man is playing a guitar.") @ embed("Someone plays an instrument."))"""
SCORE = """\
def score(query, passage):
    query = pieces(stripped(query))[:{half}]
    ids = np.array([[{before}*query, {between}*pieces(stripped(passage))[:{room} - len(query)]{after}]])
    return session.run(["score"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0][0, 0]

print(score("Who plays?", "A man is playing a guitar."))"""


def model_card(manifest: Manifest, *, model_bytes: int, folder: Path) -> str:
    """The text of README.md.  folder: has the tokenizer.json."""
    is_reranker, evaluation = manifest.kind == "cross-encoder", manifest.evaluation
    summary = RERANKER_SUMMARY if is_reranker else SUMMARY.format(dim=manifest.dim)
    facts = {
        "languages": ", ".join(manifest.languages),
        "parameters": f"{manifest.parameters:,}",
        "precision": manifest.precision,
        "size of model.onnx": f"{model_bytes:,} bytes",
        "tokens read": f"at most {manifest.max_length}, special tokens included",
        "made by": f"{manifest.created_by}, {manifest.created_at}",
    }
    use = [RERANKER_USE if is_reranker else USE, python_recipe(manifest, folder)]
    use += [_prompts(manifest)] if manifest.prompts else []
    languages = "\n".join(f"- {json.dumps(name)}" for name in manifest.languages)  # quoted: YAML reads no as false
    task = "text-ranking" if is_reranker else "sentence-similarity"
    sections = {
        f"# {manifest.name}": f"{summary}\n{_rows('| | |', '|---|---|', facts.items())}",
        "## Use": "\n".join(use),
        "## Alignment": _alignment(evaluation["alignment"]) if "alignment" in evaluation else "",
        "## Adaptation": _adaptation(evaluation["adaptation"]) if "adaptation" in evaluation else "",
        "## Evaluation": _evaluation(manifest, is_reranker=is_reranker),
        "## Training data": _data(manifest),
        "## Training": _training(manifest.training),
        "## Limitations": _limitations(manifest),
    }
    front = f"---\nlanguage:\n{languages}\npipeline_tag: {task}\nlibrary_name: onnxruntime\n---"
    blocks = [front, *(f"{title}\n\n{text}".strip() for title, text in sections.items() if text)]
    return "\n\n".join(blocks) + "\n"


def table(rows: Mapping[str, Mapping[str, float]], *, digits: int = 1) -> str:
    """Markdown, one row a name, one column a key that any row has; `-` where a row lacks it."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    head = f"| {' | '.join(['', *columns])} |", f"| {' | '.join(['---', *('---:' for _ in columns)])} |"
    cells = ([name, *(_number(row.get(column), digits=digits) for column in columns)] for name, row in rows.items())
    return _rows(*head, cells)


def _rows(head: str, rule: str, rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([head, rule, *(f"| {' | '.join(row)} |" for row in rows)])


def _prompts(manifest: Manifest) -> str:
    """What goes before a text; spaces and line ends are seen."""
    quoted = {name: json.dumps(text, ensure_ascii=False).replace("|", "\\|") for name, text in manifest.prompts.items()}
    rows = [(name, f"`` {quoted[name]} ``" if prompt else "(none)") for name, prompt in manifest.prompts.items()]
    default = manifest.default_prompt_name
    rest = f"Other texts have the prompt `{default}`." if default else "Other texts have none."
    lead = (
        "A prompt goes before a text, as in training. In the service, queries of a search have the prompt `query` and "
        f"documents `document` or `passage`, where there are such; `prompt_name` names any. {rest}"
    )
    return f"{lead}\n\n{_rows('| prompt | text |', '|---|---|', rows)}"


def _evaluation(manifest: Manifest, *, is_reranker: bool) -> str:
    """A table for each metric; one of a run's steps for a metric that has another level."""
    evaluation = manifest.evaluation
    unit, legend, command = "text", SCORES, EVALUATE
    if is_reranker:
        unit, legend, command = "pair", RERANKER_SCORES, RERANKER_EVALUATE
    apart = {"export", "served", "alignment", "adaptation"}
    before = {name: values for name, values in evaluation.items() if name not in apart}
    served = evaluation.get("served", {})
    blocks = []
    if served:
        blocks += [f"Scores x 100 of this folder as it is served {legend}: {command}.", *_metrics(served, "###")]
        blocks.append("### Before export")
    checkpoint = f"Scores x 100 of the checkpoint before export {legend}{_sample(manifest.training)}."
    if before or not {"alignment", "adaptation"} & evaluation.keys():
        blocks.append(checkpoint if before else "The checkpoint came without scores.")
    blocks += _metrics(before, "####" if served else "###")
    if "export" in evaluation:
        lead = f"What the conversion cost, measured when this folder was written, one {unit} at a time."
        measured = {name: value for name, value in evaluation["export"].items() if value is not None}
        rows = [(name, _number(value, digits=5)) for name, value in measured.items()]
        blocks.append(f"### Export\n\n{lead}\n\n{_rows('| | |', '|---|---:|', rows)}")
    return "\n\n".join(blocks)


def _sample(training: Mapping[str, Any]) -> str:
    """How much of each set a run scores, as its configuration says."""
    config = training.get("config", {})
    most = {**config.get("evaluation", {}), **config.get("measure", {})}
    rows = {"sts_rows": "rows of an STS file", "tatoeba_rows": "of a Tatoeba file", "queries": "queries of a set"}
    parts = [f"{most[name]} {what}" for name, what in rows.items() if most.get(name)]
    return f", of at most {', '.join(parts)}" if parts else ""


def _alignment(facts: Mapping[str, Any]) -> str:
    """What a head after the vectors gained and lost (`crosslet align`)."""
    before = f" (fingerprint `{facts['before'][:12]}`)" if facts.get("before") else ""
    return (
        f"A head aligned {facts['languages']} on {facts['pairs']:,} pairs ({facts['method']}); it is in the graph. "
        f"Vectors of the model before it{before} are not comparable.\n\n{_gains(facts)}"
    )


def _adaptation(facts: Mapping[str, Any]) -> str:
    """What further training gained and lost (`crosslet adapt`)."""
    added = f" {facts['new_pieces']:,} new pieces are in its vocabulary." if facts.get("new_pieces") else ""
    return (
        f"Trained further for {facts['languages']} on {facts['pairs']:,} pairs ({facts['method']}).{added} Vectors of "
        f"the model before (fingerprint `{facts['before'][:12]}`) are not comparable.\n\n{_gains(facts)}"
    )


KEPT = {"similarity": "Spearman x 100 of similarity", "search": "MRR x 100 of the bundled searches (dev)"}


def _gains(facts: Mapping[str, Any]) -> str:
    return (
        f"Translations found, x 100, on {facts['test_pairs']:,} held-out pairs:\n\n{table(facts['scores'])}\n\n"
        f"P@1 x 100 of a small probe, between a language and each other one:\n\n{table(facts['probe'])}"
    ) + "".join(
        f"\n\n{title}:\n\n{table(facts[name])}" for name, title in KEPT.items() if facts.get(name, {}).get("before")
    )


def _metrics(scores: Mapping[str, Any], level: str) -> list[str]:
    blocks = []
    for name, values in scores.items():
        digits = 2 if name.endswith(UNSCALED) else 1
        if not isinstance(values, Mapping):
            text = _number(values, digits=digits)
        else:
            is_table = all(isinstance(value, Mapping) for value in values.values())
            text = table(values if is_table else {name: values}, digits=digits)
        blocks.append(f"{level} {name}\n\n{text}")
    return blocks


def _data(manifest: Manifest) -> str:
    if not manifest.data_licences:
        return "The checkpoint does not say what it was trained on."
    rows = [
        (f"[{item.source}]({item.url})" if item.url else item.source, item.licence, f"{item.pairs:,}")
        for item in manifest.data_licences
    ]
    return _rows("| source | licence | pairs |", "|---|---|---:|", rows)


def _training(training: Mapping[str, Any]) -> str:
    notes = [training["notes"]] if "notes" in training else []
    if "config" not in training:
        return "\n\n".join(notes) or "Not trained by this project."
    seen = ", ".join(f"{stage} {pairs:,}" for stage, pairs in training["pairs_seen"].items())
    record = f"Of the last run: commit `{training['git_commit']}`; pairs seen: {seen}."
    config = "Its configuration is `training.config` in `manifest.json`; `crosslet info --json` prints it."
    return "\n\n".join([*notes, f"{record} {config}"])


def _limitations(manifest: Manifest) -> str:
    own = "".join(f"- {weakness}\n" for weakness in manifest.training.get("weaknesses", ()))
    if manifest.kind == "cross-encoder":
        return own + RERANKER_LIMITATIONS.format(max_length=manifest.max_length)
    text = own + LIMITATIONS.format(max_length=manifest.max_length)
    if manifest.precision == "fp32":
        return text
    if manifest.activations == "dynamic":
        return text + DYNAMIC_LIMITATION
    return text + (UNPADDED_LIMITATION if manifest.padding == "skipped" else STATIC_LIMITATION)


def _number(value: Any, *, digits: int = 1) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def python_recipe(manifest: Manifest, folder: Path) -> str:
    """The section of a card on Python.  folder: has the tokenizer.json."""
    tokenizer = Tokenizer(folder / TOKENIZER_FILE, max_length=manifest.max_length)
    packages, standard, imports, pieces = "onnxruntime and tokenizers", "import os", "import tokenizers", TOKENIZERS
    if tokenizer.is_unigram:
        packages, standard = "onnxruntime, protobuf, sentencepiece and tokenizers", "import json\nimport os"
        imports = "import sentencepiece\nimport tokenizers\nfrom sentencepiece import sentencepiece_model_pb2"
        pieces = SENTENCEPIECE
    return PYTHON.format(
        packages=packages,
        unfolded=UNFOLDED if manifest.folds_text else "",
        standard=standard,
        imports=imports,
        pieces=pieces,
        white_space=WHITE_SPACE,
        exactness=EXACTNESS if manifest.precision == "int8" else "",
        run=_score(tokenizer) if manifest.kind == "cross-encoder" else _embed(tokenizer, manifest),
    )


def _embed(tokenizer: Tokenizer, manifest: Manifest) -> str:
    whole, count = tokenizer.whole("a"), len(tokenizer.pieces("a"))
    after = tokenizer.closing(whole)
    before = whole[: len(whole) - count - len(after)]
    prompt = manifest.prompts.get(manifest.default_prompt_name or "", "")
    return EMBED.format(
        parameter=f", prompt={prompt!r}" if manifest.prompts else "",
        prompt="prompt + " if manifest.prompts else "",
        before=_ids(before),
        room=tokenizer.max_length - len(before) - len(after),
        after="".join(f", {id_}" for id_ in after),
    )


def _score(tokenizer: Tokenizer) -> str:
    frame = tokenizer.pair_frame
    return SCORE.format(
        half=tokenizer.max_length // 2,
        before=_ids(frame.before),
        between=_ids(frame.between),
        room=tokenizer.max_length - len(frame.before) - len(frame.between) - len(frame.after),
        after="".join(f", {id_}" for id_ in frame.after),
    )


def _ids(ids: Iterable[int]) -> str:
    return "".join(f"{id_}, " for id_ in ids)
