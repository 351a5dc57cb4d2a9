import json
import re
from pathlib import Path

import pytest
import yaml

from export.evaluation.__main__ import main as evaluate
from tests.training.models.bases import save_family
from tests.training.reranking.small import STAGE, TEXTS, settings, student_base, translated
from training.__main__ import main
from training.pipeline.runner import fingerprints
from training.reranking.checkpoint import load_cross_encoder
from training.reranking.config import load_rerank_config
from training.reranking.data import RerankData
from training.reranking.job import RerankRun
from training.reranking.trainer import BEST, LAST


def run(values: dict, data: Path, out: Path) -> int:
    config = write_settings(out.with_suffix(".yaml"), values)
    return main(["--config", str(config), "--data", str(data), "--out", str(out)])


def test_one_command_trains_measures_and_keeps_best_and_last(base: Path, data: Path, tmp_path: Path) -> None:
    assert run(settings(base), data, tmp_path / "out") == 0
    scores = json.loads((tmp_path / "out/final/scores.json").read_text())
    assert scores.keys() == {"xset"}
    assert scores["xset"].keys() == {"re-ranker", "BM25", "bi-encoder"}
    assert scores["xset"]["re-ranker"]["mrr"].keys() == {"mixed", "en-xx", "xx-xx"}
    for folder in (BEST, LAST):
        model, _, facts = load_cross_encoder(tmp_path / "out/final" / folder)
        assert (facts.languages, model.encoder.config.recurrences) == (["en", "xx"], 2)
    dev = [json.loads(line)["score"] for line in (tmp_path / "out/xpr/dev.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "out/final/best/acc1.json").read_text())["acc@1"] == max(dev)
    done = (tmp_path / "out/xpr/done.json").stat().st_mtime_ns
    assert run(settings(base), data, tmp_path / "out") == 0  # nothing is left to do
    assert (tmp_path / "out/xpr/done.json").stat().st_mtime_ns == done


def test_body_is_made_first_and_bi_encoder_taught_last(data: Path, tmp_path: Path) -> None:
    texts = [*TEXTS, *map(translated, TEXTS)]
    base, student = save_family("xlm-roberta", tmp_path / "base", texts), student_base(tmp_path / "student")
    body = {"layers": [0, 2], "vocab_size": 500, "bottleneck_size": 16}
    teaching = {"encoder": str(student), "stage": {"epochs": 1.0, "batch_size": 8, "learning_rate": 1.0e-3}}
    values = settings(base, body=body, teach=teaching)
    values["measure"]["bi_encoder"] = str(student)
    assert run(values, data, tmp_path / "out") == 0
    model, tokenizer, _ = load_cross_encoder(tmp_path / "out/final/best")
    assert len(model.encoder.body.encoder.layer) == 2
    assert model.encoder.config.bottleneck_size == 16
    assert model.encoder.config.vocab_size == len(tokenizer) <= 500
    scores = json.loads((tmp_path / "out/final/scores.json").read_text())["xset"]
    assert scores.keys() == {"re-ranker", "BM25", "bi-encoder", "bi-encoder, taught"}
    assert (tmp_path / "out/final/bi-encoder/modules.json").is_file()
    assert {"margin"} <= json.loads((tmp_path / "out/taught/log.jsonl").read_text().splitlines()[0]).keys()


def test_a_cascade_is_a_step_for_each_language(base: Path, data: Path, tmp_path: Path) -> None:
    values = settings(base, strategy="cascade", measure={"sets": []})
    del values["xpi"]
    assert run(values, data, tmp_path / "out") == 0
    assert (tmp_path / "out/xpr-1/best/reranker.json").is_file()
    assert (tmp_path / "out/xpr-2/best/reranker.json").is_file()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"languages": ["en"]}, "languages is .*; it must have at least two"),
        ({"negatives": {"kind": "hard"}}, "negatives: kind is hard; encoder must name the bi-encoder"),
        ({"train": [{"path": "qa/none.jsonl"}]}, "there is no .*qa/none.jsonl"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"body": {"layers": [], "vocab_size": 9}}, "body.layers has 0 entries; it must have at least 1"),
        ({"xpi": {"sources": ["nothing"]}}, "parallel/nothing has no text in en, xx"),
        ({"terms": ["permissive"]}, "train has 'train', which the catalogue lacks"),
        ({"validation": {"questions": 9}}, "has 9 questions that are measured nowhere, and all are held out"),
        ({"xpr": {**STAGE, "reduction": "mean"}}, "xpr: unknown key 'reduction'"),
        ({"teach": {"encoder": "x", "stage": {"epochs": 1.0, "compile": True}}}, "teach.stage: unknown key 'compile'"),
        ({"teach": {"encoder": "x", "scale": 0.0}}, "teach.scale is 0.0; it must be above 0"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(
    changes: dict, complaint: str, base: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(settings(base, **changes), data, tmp_path / "out") == 2
    error = capsys.readouterr().err.split("error: ")[1]
    assert re.search(complaint, error)


def test_compile_is_refused_on_a_base_that_is_no_student(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = save_family("xlm-roberta", tmp_path / "base", TEXTS)
    assert run(settings(base, xpi=None, xpr={**STAGE, "compile": True}), data, tmp_path / "out") == 2
    assert f"xpr has compile, which base {base} does not take: leave it out" in capsys.readouterr().err


def test_evaluate_measures_an_encoder_and_a_cross_encoder(
    base: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert evaluate([str(base), "--data", str(data), "--sets", "rerank"]) == 0
    encoder = json.loads(capsys.readouterr().out)
    assert encoder["xset_mrr"].keys() == {"mixed", "en-en", "en-xx", "xx-en", "xx-xx"}
    values = settings(base, measure={"sets": []})
    del values["xpi"]
    assert run(values, data, tmp_path / "out") == 0
    model = str(tmp_path / "out/final/best")
    capsys.readouterr()
    arguments = [model, "--data", str(data), "--sets", "rerank", "--queries", "2", "--baseline", str(base)]
    assert evaluate(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["xset_acc@1_bm25"]["en-en"] == 100  # a passage shares its rare word with its query
    assert found["xset_map_bi_encoder"].keys() == found["xset_map"].keys()
    capsys.readouterr()
    assert evaluate([*arguments, "--rerank-k", "1"]) == 0
    out, err = capsys.readouterr()
    assert f"re-ranker small ({model}) reads the first 1 of the baseline; baseline {base.name} (" in caplog.text
    assert re.search(r"small: +100%.* 2/2 ", err)
    first = json.loads(out)
    assert first["xset_mrr"] == first["xset_mrr_bi_encoder"] == found["xset_mrr_bi_encoder"]  # one has no other order
    assert evaluate([*arguments, "--rerank-k", "99", "--rerank-weight", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["xset_mrr"] == found["xset_mrr_bi_encoder"]
    assert evaluate([*arguments, "--one-language"]) == 0
    assert json.loads(capsys.readouterr().out)["xset_mrr"].keys() == {"mixed", "en-en", "xx-xx"}
    assert evaluate([model, "--data", str(data)]) == 2
    assert "score it with --sets rerank" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["reranker", "reranker-small"])
def test_the_shipped_configurations_load(name: str) -> None:
    path = Path(__file__).parents[3] / f"training/configs/{name}.yaml"
    assert load_rerank_config(path).strategy == "mixed"


def test_what_is_measured_and_beside_what_is_part_of_a_steps_identity(base: Path, data: Path, tmp_path: Path) -> None:
    def identities(**measure: object) -> dict[str, str]:
        values = settings(base)
        values["measure"] |= measure
        config = load_rerank_config(write_settings(tmp_path / "run.yaml", values))
        return fingerprints(RerankRun(config, RerankData(config, data), tmp_path).steps(), data_fingerprint="d")

    student = student_base(tmp_path / "student")
    first, beside = identities(bi_encoder=None), identities(bi_encoder=str(student))
    assert {name for name in first if first[name] != beside[name]} == {"scores", "final"}
    student_base(student, seed=1)
    assert identities(bi_encoder=str(student))["scores"] != beside["scores"]
    (measured,) = settings(base)["measure"]["sets"]
    few = identities(bi_encoder=None, sets=[{**measured, "questions": 1}])
    assert {name for name in first if first[name] != few[name]} == first.keys()


def write_settings(path: Path, values: dict) -> Path:
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path
