from pathlib import Path

import pytest

from tests.training.ablation.specs import write_spec
from training.ablation.paper import MODELS, VARIANTS
from training.ablation.spec import load_spec, merge, nest, read_cells
from training.errors import ConfigError

SHIPPED = Path(__file__).parents[3] / "training/configs/ablation.yaml"


def cells_of(path: Path):
    return {cell.folder: cell for cell in read_cells(load_spec(path), path)}


def test_dotted_and_nested_changes_are_the_same() -> None:
    assert nest({"a.b": 1, "a": {"c": 2}, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 5}, "d": {"e": 6}}) == {
        "a": {"b": 5, "c": 2},
        "d": {"e": 6},
    }


def test_a_cell_is_the_base_with_its_changes_and_nothing_else(tmp_path: Path) -> None:
    cells = cells_of(write_spec(tmp_path))
    full, six = cells["full"].config, cells["M=6"].config
    assert (full.student.unit_layers, full.student.recurrences, full.student.bottleneck_size) == (3, 2, 64)
    assert (six.student.unit_layers, six.student.recurrences, six.student.bottleneck_size) == (6, 1, 64)
    assert six.corpus == full.corpus


def test_a_grid_is_the_product_of_its_values_named_by_them(tmp_path: Path) -> None:
    grid = {"student.bottleneck_size": [32, None], "contrastive.objective": ["soft", "none"]}
    cells = read_cells(load_spec(path := write_spec(tmp_path, runs={}, grid=grid)), path)
    settings = [(cell.config.student.bottleneck_size, cell.config.contrastive.objective) for cell in cells]
    assert settings == [(32, "soft"), (32, "none"), (None, "soft"), (None, "none")]
    assert cells[1].name == "bottleneck_size=32, objective=none"


def test_a_cell_of_the_grid_named_like_a_run_is_refused(tmp_path: Path) -> None:
    clash = write_spec(tmp_path, runs={"seed=3": {}}, grid={"seed": [3]})
    with pytest.raises(ConfigError, match="there are two cells 'seed=3'"):
        cells_of(clash)


def test_a_repeat_differs_from_its_cell_in_the_seed_alone(tmp_path: Path) -> None:
    path = write_spec(tmp_path, seeds={"w/o MCL": [2, 3]}, seed_keys=["student_stage.seed", "contrastive.seed"])
    cells = cells_of(path)
    repeat = cells["w-o-MCL-seed-3"]
    assert (repeat.name, repeat.seed) == ("w/o MCL", 3)
    assert (repeat.config.student_stage.seed, repeat.config.contrastive.seed, repeat.config.seed) == (3, 3, 1)
    assert repeat.config.contrastive.objective == "none"


def test_a_cell_of_limited_licences_leaves_other_text_out() -> None:
    path = SHIPPED.parent / "licences-small.yaml"
    cells = cells_of(path)
    every, free = cells["all"].config, cells["permissive-and-share-alike"].config
    left_out = every.corpus.sources.keys() - free.corpus.sources
    assert {"wesnoth", "andors_trail"} < left_out
    assert "tatoeba_challenge_test" not in left_out
    assert free.contrastive == every.contrastive


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"runs": {"a": {"student": {"bottelneck": 1}}}}, r"spec.yaml: a: student: unknown key 'bottelneck'"),
        ({"runs": {"a": {"student.unit_layers": 0}}}, "student.unit_layers is 0; it must be at least 1"),
        ({"runs": {"a": {"stages": ["contrastive", "student"]}}}, "each at most once, in order"),
        ({"runs": {}}, "defines no cell"),
        ({"grid": {"seed": []}}, "grid.seed has no value"),
        ({"sedes": {}}, "unknown key 'sedes'"),
        ({"tables": {"T": ["full", "fool"]}}, "tables.T names 'fool'; the cells are: M=6, full"),
        ({"findings": {"F": {"order": [["full", "fool"]]}}}, "findings.F names 'fool'"),
        ({"findings": {"F": {"order": [["full"]], "metrics": ["mrr"]}}}, "it must be 'mono', 'cross' or 'tatoeba'"),
        ({"findings": {"F": {"order": [["full"]]}}}, "findings.F compares nothing"),
        ({"findings": {"F": {"order": []}}}, "findings.F compares nothing"),
        ({"findings": {"F": {"order": [["full", "M=6"]], "metrics": []}}}, "findings.F compares nothing"),
        ({"figures": {"depth": ["fool"]}}, "figures.depth names 'fool'"),
        ({"seeds": {"full": [1]}}, "seeds.full has 1, the seed of 'full' itself"),
        ({"runs": {"w/o X": {}, "w o X": {}}}, "'w/o X' and 'w o X' would share the folder 'w-o-X'"),
        ({"base": "none.yaml"}, "there is no configuration file"),
        ({"runs": {"a": {"corpus": {"sources": {False: {}}}}}}, "False is not a string: put it in quotes"),
        ({"margin": -1.0}, "margin is -1.0; it must be at least 0"),
    ],
)
def test_a_wrong_spec_is_refused_with_one_sentence(tmp_path: Path, changes: dict, complaint: str) -> None:
    path = write_spec(tmp_path, **changes)
    with pytest.raises(ConfigError, match=complaint):
        read_cells(load_spec(path), path)


def student_pairs(config) -> int:
    return sum(config.stage(stage).pairs for stage in config.stages if stage != "assistant")


def test_shipped_single_stage_students_see_as_many_pairs() -> None:
    cells = cells_of(SHIPPED)
    multi = student_pairs(cells["full"].config)
    singles = [cell for name, cell in cells.items() if name.startswith("single-stage")]
    assert [student_pairs(cell.config) for cell in singles] == [multi, multi]


def test_shipped_pre_distilled_student_has_three_stages() -> None:
    cells = cells_of(SHIPPED)
    config = cells["single-stage-pre-distilled"].config
    assert config.stages == ["bottleneck", "student", "contrastive"]
    assert config.contrastive.objective == "none"
    assert cells["single-stage-random"].config.stages == ["contrastive"]


def test_scaled_down_students_see_as_many_pairs() -> None:
    cells = {cell.name: cell.config for cell in cells_of(SHIPPED.with_name("ablation-multilingual.yaml")).values()}
    multi = student_pairs(cells["full"])
    assert multi == 250_000
    for name in ("single-stage, random", "single-stage, pre-distilled", "3 layers", "6 layers", "12 layers"):
        assert student_pairs(cells[name]) == multi
        assert cells[name].contrastive.objective == "none"
    for layers in (3, 6, 12):
        student = cells[f"{layers} layers"].student
        assert (student.bottleneck_size, student.unit_layers, student.recurrences) == (None, layers, 1)


def test_the_shipped_spec_has_the_cells_of_the_paper() -> None:
    cells = cells_of(SHIPPED)
    assert {cell.config.contrastive.objective for cell in cells.values()} == {"soft", "bool", "ce", "none"}
    assert {cell.config.student.bottleneck_size for cell in cells.values()} == {64, 128}
    assert {cell.config.student.unit_layers for cell in cells.values()} == {1, 3, 6}
    assert cells["full"].config.student.unit_layers * cells["full"].config.student.recurrences == 6


def test_each_table_of_the_paper_has_its_specification() -> None:
    names = {path.stem: cells_of(path) for path in SHIPPED.parent.glob("*.yaml") if path.stem[:5] in ("table", "figur")}
    students = {cell.name for stem in ("table-1-2", "table-7-8") for cell in names[stem].values() if "M=" in cell.name}
    assert len(students) == 10
    assert {name for name in MODELS if name.startswith("student")} < students
    variants = [cell.name for cells in names.values() for cell in cells.values()]
    assert set(VARIANTS) < set(variants)


def test_the_deciding_cells_of_mcl_differ_in_stage_4_alone() -> None:
    cells = {cell.name: cell.config for cell in cells_of(SHIPPED.with_name("mcl.yaml")).values()}
    plain = {name: config for name, config in cells.items() if not name.startswith("raw")}
    assert len({config.model_dump_json(exclude={"contrastive"}) for config in plain.values()}) == 1
    assert [config.labels.raw for name, config in cells.items() if name.startswith("raw")] == [True, True]
    balance = cells["high rates, sums, soft at 16"].contrastive.mcl_weight / 384
    assert balance == pytest.approx(cells["soft at 0.041"].contrastive.mcl_weight, rel=0.02)
