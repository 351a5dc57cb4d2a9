from pathlib import Path

import pytest
import yaml

from training.ablation.spec import load_spec, read_cells
from training.config.parsing import build, read_yaml
from training.config.run import RunConfig, load_config
from training.errors import ConfigError

FOLDER = Path(__file__).parents[3] / "training" / "configs"
OTHERS = {"alignment-layers", "alignment-tables", "reranker", "reranker-small", "reranker-study"}
PATHS = sorted(path for path in FOLDER.glob("*.yaml") if path.stem not in OTHERS)
SPECS = [path for path in PATHS if "runs" in read_yaml(path)]  # of many runs each
CONFIGS = [path for path in PATHS if path not in SPECS]
STAGES = {name: {"pairs": 10} for name in ("assistant", "bottleneck", "student_stage", "contrastive")}
MINIMAL = {"name": "x", "languages": ["de"], "corpus": {"sources": {"news": {}}}, **STAGES}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path) -> None:
    assert load_config(path).languages


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_shipped_specification_loads(path: Path) -> None:
    assert read_cells(load_spec(path), path)


def test_a_missing_key_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="missing key 'languages'"):
        build(RunConfig, {key: value for key, value in MINIMAL.items() if key != "languages"}, where="run.yaml")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"student": {"bottelneck": 128}}, r"student: unknown key 'bottelneck'; known keys: .*bottleneck_size"),
        ({"languages": "de"}, "languages is 'de'; it must be a list"),
        ({"seed": "one"}, "seed is 'one'; it must be a whole number"),
        ({"seed": True}, "seed is True; it must be a whole number"),
        ({"student": {"bottleneck_size": "128"}}, "student.bottleneck_size is '128'; it must be a whole number"),
        ({"corpus": {"sources": {"news": {}}, "on_bad_line": "ignore"}}, "it must be 'stop' or 'skip'"),
        (
            {"contrastive": {"pairs": 10, "objective": "hard"}},
            "it must be 'soft', 'bool', 'bool_equal', 'ce', 'ce_sum', 'ce_hard' or 'none'",
        ),
        ({"assistant": [1]}, "it must be a mapping of settings"),
        ({"student": {"unit_layers": 3, "layers": [0, 2]}}, r"student: layers is \[0, 2\]; it must list 3"),
        ({"student": {"unit_layers": 2, "layers": [2, 0]}}, "in ascending order"),
        ({"student": {"unit_layers": 1, "layers": [-1]}}, r"student.layers.0 is -1; it must be at least 0"),
        ({"passages": {"sources": ["news"]}}, "passages: sources is set; stage 5 does not read it: leave it out"),
        ({"passages": {"compile": True}}, "passages: compile is set; stage 5 does not read it"),
        ({"passages": {"reduction": "mean"}}, "passages: reduction is set"),
        ({"corpus": {}}, "corpus: missing key 'sources'"),
        ({"languages": []}, "languages has 0 entries; it must have at least 1"),
        ({"languages": ["de", "de"]}, "languages lists 'de' more than once"),
        ({"labels": {"raw": True, "dim": 8}}, "raw is set; beside, centred and dim make labels of unit length"),
        ({"lexical": {"ridge": float("nan")}}, "lexical.ridge is nan; it must be a finite number"),
        ({"assistant": {"pairs": 10, "warmup": 500}}, "assistant.warmup is 500; it must be below 1"),
        ({"corpus": {"sources": {"news": {"weight": 0.0}}}}, "corpus.sources.news.weight is 0.0; it must be above 0"),
        ({"evaluation": {"steps": ["lexcal"]}}, "evaluation.steps.0 is 'lexcal'; it must be 'start', 'assistant'"),
        ({"assistant": {"pairs": 10, "learning_rate": "1e-4"}}, "write 1.0e-4"),
        ({"assistant": {}}, "assistant must have either pairs or epochs"),
        ({"assistant": {"pairs": 10, "epochs": 1}}, "assistant must have either pairs or epochs"),
        ({"contrastive": {"pairs": 10, "sources": ["talks"]}}, "contrastive.sources has 'talks'"),
        (
            {"assistant": {"pairs": 10, "cycles": 2, "average_cycles": 4}},
            "average_cycles is 4; there are 2 cycle ends and the start",
        ),
        (
            {"bottleneck": {"pairs": 10, "source_share": 0.5}},
            "bottleneck: source_share is set; stage 2 learns from both sides",
        ),
        ({"assistant": {"pairs": 10, "betas": [0.9]}}, "assistant.betas has 1 entries; it must have at least 2"),
        ({"assistant": {"pairs": 10, "betas": [0.9, 1.0]}}, "assistant.betas.1 is 1.0; it must be below 1"),
        ({"corpus": {"sources": {False: {}}}}, "sources has the key False, which YAML does not read as text"),
        ({1: 2, "foo": 3}, "unknown key 1"),
        (
            {"student": {"bottleneck_size": 100}, "contrastive": {"pairs": 10, "round_words": True}},
            "contrastive.round_words needs a student.bottleneck_size that is a multiple of 32, not 100",
        ),
        ({"assistant": {"pairs": 10, "max_length": 129}}, "assistant.max_length is 129; student.max_length allows 128"),
        ({"stages": ["student", "assistant"]}, "in order: assistant, bottleneck, student, contrastive"),
    ],
)
def test_a_key_or_value_no_run_can_use_is_refused(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}), encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint):
        load_config(path)


def test_rounding_the_whole_table_ignores_the_bottleneck() -> None:
    for size in (100, None):
        values = {**MINIMAL, "student": {"bottleneck_size": size}, "assistant": {"pairs": 10, "round_words": True}}
        config = build(RunConfig, values, where="run.yaml")
        assert (config.student.bottleneck_size, config.assistant.round_words) == (size, True)


def test_a_missing_file_and_broken_yaml_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load_config(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not YAML"):
        load_config(broken)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIGS[0].read_text(encoding="utf-8"), encoding=encoding)
    assert load_config(path) == load_config(CONFIGS[0])
    path.write_bytes(b"name: T\xfcr\n")
    with pytest.raises(ConfigError, match=r"run\.yaml is not YAML: unacceptable character #x00fc"):
        load_config(path)


def test_the_resolved_configuration_loads_to_itself(tmp_path: Path) -> None:
    config = load_config(CONFIGS[0])
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(yaml.safe_dump(config.model_dump()), encoding="utf-8")
    assert load_config(resolved) == config


def test_only_the_papers_configurations_average_squared_errors() -> None:
    for path in CONFIGS:
        config = load_config(path)
        found = {config.stage(name).reduction for name in config.stages}
        is_papers = path.stem.startswith("paper-") or path.stem == "ablation-multilingual-base"
        assert found == {"mean" if is_papers else "sum"}, path.name
