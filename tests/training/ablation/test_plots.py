from itertools import pairwise

import pytest

from training.ablation.plots import Panel, add_legend, count_pairs, panel


@pytest.mark.parametrize(
    "names",
    [
        ["full (soft labels)", "Bool", "CE", "w/o MCL"],
        [f"w/o MCL and Rec.: {part}" for part in ("source", "target", "contrastive")],
    ],
)
def test_a_legend_covers_no_line_and_is_not_cut(names: list[str]) -> None:
    panels: list[Panel] = []
    with panel("objectives", "", title="Dev score", into=panels) as axes:
        for height, name in enumerate(names):
            axes.plot([0, 1], [height, height], label=name)
        axes.set_xlabel("pairs seen")
        add_legend(axes)
    axes.figure.draw_without_rendering()  # at the figure's own resolution
    legend, page = axes.figure.legends[0].get_window_extent(), axes.figure.bbox
    assert legend.y1 <= axes.xaxis.label.get_window_extent().y0
    assert page.x0 <= legend.x0
    assert legend.x1 <= page.x1
    assert all(f">{name}<" in panels[0].svg for name in names)


@pytest.mark.parametrize("pairs", [400_000, 2_860_000, 123_456_789])
def test_numbers_of_pairs_do_not_touch(pairs: int) -> None:
    with panel("loss", "", title="Loss", into=[]) as axes:
        axes.plot([3_000, pairs], [2, 1])
        count_pairs(axes)
    axes.figure.draw_without_rendering()
    low, high = axes.get_xlim()
    labels = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    boxes = [label.get_window_extent() for label in labels]
    assert len(boxes) > 2
    assert all(left.x1 + 5 < right.x0 for left, right in pairwise(boxes))
