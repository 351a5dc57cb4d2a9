import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.cli.table import width_of
from service.document_index import load_collection
from service.documents.document import Document
from service.model.encoder import load_encoder
from service.settings import Settings
from tests.artifacts import TEXTS, build_artifact
from tests.service.cli.conftest import Crosslet
from tests.service.cli.terminal import on_a_terminal

pytestmark = pytest.mark.usefixtures("local")


def put(documents: list[Document]) -> None:
    encoder = load_encoder(Settings().model)
    collection = load_collection(Settings(), encoder.manifest)
    if documents:
        collection.put(documents, np.stack([encoder.encode(document.text).vector for document in documents]))
    collection.close()


def test_search_prints_a_table_on_a_terminal_else_json(crosslet: Crosslet) -> None:
    put([Document(f"日本/{number}", text, {"lang": "de"}) for number, text in enumerate(TEXTS[:3])])
    piped = crosslet("search", TEXTS[1], "--mode", "dense").out
    rows = [json.loads(line) for line in piped.splitlines()]
    assert [row.keys() for row in rows] == [{"id": 0, "score": 0, "text": 0, "metadata": 0}.keys()] * 3
    assert on_a_terminal("search", TEXTS[1], "--mode", "dense", "--json").screen == piped
    header, *shown = on_a_terminal("search", TEXTS[1], "--mode", "dense", columns=100).screen.splitlines()
    assert header.split() == ["score", "id", "metadata", "text"]
    assert [line.split()[:3] for line in shown] == [[f"{row['score']:.3f}", row["id"], "lang=de"] for row in rows]
    assert [line.endswith(row["text"]) for line, row in zip(shown, rows, strict=True)] == [True] * 3
    narrow = on_a_terminal("search", TEXTS[1], "--mode", "dense", columns=50).screen
    assert max(map(width_of, narrow.splitlines())) <= 50


def test_no_match_is_said_on_standard_error_with_the_next_step(crosslet: Crosslet) -> None:
    put([])
    assert "is empty: load documents with `crosslet index build`" in crosslet("search", "hallo").err
    put([Document("1", "hallo", {"lang": "de", "source": {"site": "x"}})])
    told = {
        '{"langg": "de"}': "no document matches: none has the field langg; did you mean lang?",
        '{"or": [{"lang": "fr"}, {"not": {"source.sit": "x"}}]}': None,
        '{"and": [{"lang": "de"}, {"source.sit": "y"}]}': "none has the field source.sit; did you mean source.site?",
        '{"zzz": 1}': "no document matches: none has the field zzz\n",
        '{"lang": "fr"}': "crosslet: no document matches the filter\n",
    }
    for filter_, sentence in told.items():
        captured = crosslet("search", "hallo", "--filter", filter_)
        assert captured.err == "" if sentence is None else sentence in captured.err
        assert (captured.out == "") == (sentence is not None)
    assert (
        "none has a word of the query; --mode hybrid also finds by meaning"
        in crosslet("search", "anders", "--mode", "keywords").err
    )
    ended = on_a_terminal("search", "hallo", "--filter", '{"lang": "fr"}')
    assert (ended.screen, ended.error, ended.status) == ("", "crosslet: no document matches the filter\n", 0)


def test_the_data_option_wins_over_the_environment(
    crosslet: Crosslet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put([Document("1", "hallo", {})])
    monkeypatch.setenv("CROSSLET_DATA", str(tmp_path / "other"))
    assert "`crosslet index build FILE` makes one" in crosslet("search", "hallo", status=2).err
    assert json.loads(crosslet("search", "hallo", "--data", tmp_path / "data").out)["id"] == "1"


def test_store_of_another_model_names_the_reembed_command(crosslet: Crosslet, tmp_path: Path) -> None:
    put([Document("1", "hallo", {})])
    build_artifact(tmp_path / "other", seed=3)
    assert (
        "re-embed the store for the loaded model with `crosslet index re-embed`"
        in crosslet("search", "hallo", "--model", tmp_path / "other", status=2).err
    )


def test_reranked_lines_are_a_table_on_a_terminal(crosslet: Crosslet, tmp_path: Path) -> None:
    path = tmp_path / "passages.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    rows = [json.loads(line) for line in crosslet("rerank", "guitar", path, "--top-k", "3").out.splitlines()]
    header, *shown = on_a_terminal("rerank", "guitar", str(path), "--top-k", "3").screen.splitlines()
    assert header.split() == ["score", "line", "text"]
    assert [line.split()[:2] for line in shown] == [[f"{row['score']:.3f}", str(row["line"])] for row in rows]


def test_stored_escapes_do_not_reach_the_terminal(crosslet: Crosslet) -> None:
    put([Document("1", "hallo", {"lang": "\x1b[31mred\x9b2J", "red\x1b[2J": 1})])
    shown = on_a_terminal("search", "hallo", "--facets", "lang")
    assert shown.screen.splitlines()[2] == "lang: [31mred 2J=1"
    told = crosslet("search", "hallo", "--filter", '{"redd[2J": 1}').err
    assert told.endswith("none has the field redd[2J; did you mean red [2J?\n")


@pytest.mark.parametrize("query", ["", " ", "\u3000\t", "\u200b"])
def test_a_query_without_a_visible_character_is_refused(crosslet: Crosslet, tmp_path: Path, query: str) -> None:
    complaint = "the query has nothing but white space and invisible characters" if query else "the query is empty"
    lines = tmp_path / "lines.txt"
    lines.write_text(TEXTS[0], encoding="utf-8")
    in_modes = [["search", query, "--mode", mode] for mode in ("dense", "keywords", "hybrid")]
    for command in (*in_modes, ["rerank", query, str(lines)]):
        assert complaint in crosslet(*command, status=2).err


def test_a_search_takes_what_the_route_takes(crosslet: Crosslet) -> None:
    put([Document(str(n), text, {"g": n // 2, "price": 9 - n, "lang": "de"}) for n, text in enumerate(TEXTS[:6])])

    def lines(*arguments: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in crosslet("search", *arguments).out.splitlines()]

    assert [one["id"] for one in lines("--sort", "price")] == ["5", "4", "3", "2", "1", "0"]
    assert [one["id"] for one in lines("--sort", "g:desc,price", "--top-k", "2", "--offset", "1")] == ["4", "3"]
    grouped = lines(TEXTS[1], "--group-by", "g", "--facets", "lang", "--include", "metadata", "--mode", "dense")
    assert grouped[-1] == {"facets": {"lang": {"de": 6}}}
    assert grouped[0] == {"id": "1", "score": grouped[0]["score"], "metadata": {"g": 0, "price": 8, "lang": "de"}} | {
        "group": 0,
        "group_size": 2,
    }
    assert sorted(one["group"] for one in grouped[:-1]) == [0, 1, 2]
    prefer = '{"field": "price", "value": 4, "weight": 1}'
    assert lines("hallo", "--prefer", prefer, "--top-k", "1")[0]["id"] == "5"
    liked = [one["price"] for one in (one["metadata"] for one in lines("--like", "1", "--sort", "price"))]
    assert liked == sorted(liked) == [4, 5, 6, 7, 9]
    refused = crosslet("search", "a", "--top-k", "9", "--offset", "2", "--sort", "price", status=2).err
    assert "only the query's best 9 are sorted: send sort_k, too" in refused
    assert "one of the four; or none, but a filter or sort" in crosslet("search", status=2).err
    table = on_a_terminal("search", "--sort", "price", "--group-by", "g", columns=100).screen
    assert table.splitlines()[0].split() == ["id", "group", "size", "metadata", "text"]
