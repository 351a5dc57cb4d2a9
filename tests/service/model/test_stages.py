import pytest

from service.model.stages import Stage, StageTimer, collecting


def test_a_stage_is_noted_where_it_is_collected_alone() -> None:
    stages: list[Stage] = []
    with StageTimer("search"):
        pass
    assert stages == []

    def work() -> str:
        with StageTimer("tokenise"):
            return "done"

    assert collecting(stages, work) == "done"
    assert [stage.name for stage in stages] == ["tokenise"]
    assert stages[0].started_at <= stages[0].ended_at
    work()
    assert len(stages) == 1


def test_a_stage_that_raises_is_noted() -> None:
    stages: list[Stage] = []

    def fail() -> None:
        with StageTimer("inference"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        collecting(stages, fail)
    assert [stage.name for stage in stages] == ["inference"]
