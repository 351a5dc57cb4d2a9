import re
from pathlib import Path

import pytest

from training.config.parsing import build, read_yaml
from training.config.run import RunConfig, load_config
from training.corpora.catalog import check_terms, load_catalog, within_terms
from training.errors import ConfigError
from training.reranking.config import RerankConfig, is_reranker, load_rerank_config

CONFIGS = Path(__file__).parents[3] / "training" / "configs"
FREE = ["permissive", "share-alike"]
MEASURED = re.compile(r"squad_it_test|mlqa_\w+|poquad\w*")
NOT_TRAINED_ON = re.compile(r"#.*|\b(measured|unseen|sets): \[[^]]*\]")


def config(*sources: str, questions: tuple[str, ...] = (), terms: list[str] | None = FREE) -> RunConfig:
    values = {
        "languages": ["de"],
        "corpus": {"sources": {name: {} for name in sources}, "terms": terms},
        "stages": ["passages"],
        "continue_from": "checkpoint",
        "passages": {"sets": {name: {} for name in questions or ("arcd",)}, "max_length": 128},
    }
    return build(RunConfig, values, where="test")


def reranker(*train: str, **changes: object) -> RerankConfig:
    values = {"kind": "reranker", "name": "x", "languages": ["en", "de"], "train": [{"path": path} for path in train]}
    return build(RerankConfig, values | {"terms": FREE} | changes, where="test")


def check(settings: RunConfig | RerankConfig) -> None:
    terms = settings.terms if isinstance(settings, RerankConfig) else settings.corpus.terms
    check_terms(terms, settings.trained_on)


def test_sources_under_the_allowed_terms_pass() -> None:
    check(config("tico19", "korsts", questions=("arcd", "jaquad")))
    check(config("wesnoth", "my own", questions=("poquad_part",), terms=None))
    check(reranker("qa/arcd.jsonl.gz", "qa/jaquad.jsonl", "parallel/tico19", xpi={"sources": ["korsts"]}))
    check(reranker("mine.jsonl", xpi={"sources": ["wesnoth"]}, terms=None))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (config("tico19", "wesnoth"), r"corpus.sources has 'wesnoth', whose terms are copyleft \(GPL"),
        (config("ted2020"), r"'ted2020', whose terms are other \(CC BY-NC-ND"),
        (config("tico19", questions=("poquad_part",)), r"passages.sets has 'poquad_part', whose terms are copyleft"),
        (config("my own"), r"'my own', which the catalogue lacks; terms: null takes any text"),
        (reranker("qa/poquad_part.jsonl.gz"), "train has 'poquad_part', whose terms are copyleft"),
        (reranker("parallel/wesnoth"), "train has 'wesnoth'"),
        (reranker("eval/arcd.jsonl"), "train has 'eval/arcd.jsonl', which the catalogue lacks"),
        (reranker("qa/arcd.jsonl", xpi={"sources": ["wesnoth"]}), "xpi.sources has 'wesnoth'"),
        (reranker("qa/arcd.jsonl", xpi={"sources": ["my own"]}), "xpi.sources has 'my own'"),
    ],
)
def test_other_terms_are_refused_by_name(settings: RunConfig | RerankConfig, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check(settings)


def test_committed_configurations_keep_to_their_terms() -> None:
    paths = sorted(path for path in CONFIGS.glob("*.yaml") if "terms: [" in path.read_text())
    assert {"passages", "reranker", "reranker-small"} <= {path.stem for path in paths}
    for path in paths:
        settings = load_rerank_config(path) if is_reranker(read_yaml(path)) else load_config(path)
        check(settings)
        assert (settings.terms if isinstance(settings, RerankConfig) else settings.corpus.terms) == FREE


def test_other_terms_are_left_out_on_request() -> None:
    whole = load_config(CONFIGS / "default.yaml")
    free = within_terms(whole, FREE)
    check(free)
    known = load_catalog()
    left_out = {known[name].terms for name in set(whole.corpus.sources) - set(free.corpus.sources)}
    assert left_out == {"copyleft"}
    assert free.corpus.terms == FREE
    mixed = config("tico19", "my own", questions=("arcd", "poquad_part"), terms=None)
    assert within_terms(mixed, FREE) == config("tico19")


def test_committed_configurations_train_on_no_measured_set() -> None:
    texts = {path.stem: NOT_TRAINED_ON.sub("", path.read_text()) for path in CONFIGS.glob("*.yaml")}
    trained = {name: sets for name, text in texts.items() if (sets := set(MEASURED.findall(text)))}
    assert trained == {}


def test_terms_follow_from_the_licence() -> None:
    for name, entry in load_catalog().items():
        is_copyleft = "GPL" in entry.licence or "EUPL" in entry.licence
        if " or " not in entry.licence.replace("-or-", ""):  # a choice of licences: the freest counts
            assert is_copyleft == (entry.terms == "copyleft"), name
        assert "-NC" not in entry.licence or entry.terms == "other", name
