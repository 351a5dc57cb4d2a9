from pathlib import Path

import pytest

from training.config.parsing import build
from training.config.run import RunConfig, load_config
from training.corpora.catalog import check_terms, load_catalog
from training.errors import ConfigError

CONFIGS = Path(__file__).parents[3] / "training" / "configs"
FREE = ["permissive", "share-alike"]


def config(*sources: str, questions: tuple[str, ...] = (), terms: list[str] | None = FREE) -> RunConfig:
    values = {
        "languages": ["de"],
        "corpus": {"sources": {name: {} for name in sources}, "terms": terms},
        "stages": ["passages"],
        "continue_from": "checkpoint",
        "passages": {"sets": {name: {} for name in questions or ("arcd",)}, "max_length": 128},
    }
    return build(RunConfig, values, where="test")


def test_sources_under_the_allowed_terms_pass() -> None:
    check_terms(config("tico19", "korsts", questions=("arcd", "jaquad")))
    check_terms(config("wesnoth", "my own", questions=("poquad_part",), terms=None))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (config("tico19", "wesnoth"), r"corpus.sources has 'wesnoth', whose terms are copyleft \(GPL"),
        (config("ted2020"), r"'ted2020', whose terms are other \(CC BY-NC-ND"),
        (config("tico19", questions=("poquad_part",)), r"passages.sets has 'poquad_part', whose terms are copyleft"),
        (config("my own"), r"'my own', which the catalogue lacks; corpus.terms: null takes any text"),
    ],
)
def test_other_terms_are_refused_by_name(settings: RunConfig, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_terms(settings)


def test_committed_configurations_keep_to_their_terms() -> None:
    configs = [load_config(path) for path in sorted(CONFIGS.glob("*.yaml")) if "terms: [" in path.read_text()]
    assert [config.corpus.terms for config in configs] == [FREE] * len(configs)
    assert configs
    for config in configs:
        check_terms(config)


def test_terms_follow_from_the_licence() -> None:
    for name, entry in load_catalog().items():
        is_copyleft = "GPL" in entry.licence or "EUPL" in entry.licence
        if " or " not in entry.licence.replace("-or-", ""):  # a choice of licences: the freest counts
            assert is_copyleft == (entry.terms == "copyleft"), name
        assert "-NC" not in entry.licence or entry.terms == "other", name
