from pathlib import Path

import pytest
from pydantic import ValidationError

from service.errors import StartError
from service.keys import FULL, READ_ONLY, Grant
from service.settings import BUNDLED_RERANKER, Settings, unknown_settings


def test_a_setting_comes_from_its_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSLET_PORT", "9090")
    monkeypatch.setenv("CROSSLET_HOST", "")  # as compose files leave it: an empty host would be every address
    assert (Settings().port, Settings().host) == (9090, "127.0.0.1")


def test_unknown_variable_is_reported_with_the_meant_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROSSLET_MAX_TEXT", "crosslet_workers", "CROSSLET_ZZZ", "OTHER"):
        monkeypatch.setenv(name, "1")
    assert unknown_settings() == {"CROSSLET_MAX_TEXT": "CROSSLET_MAX_TEXTS", "CROSSLET_ZZZ": None}


@pytest.mark.parametrize(("text", "weight"), [("0", 0.0), ("0.35", 0.35), ("1", 1.0), ("alone", "alone"), ("", 0.2)])
def test_the_weight_of_a_reranker_is_a_number_or_alone(
    monkeypatch: pytest.MonkeyPatch, text: str, weight: float | str
) -> None:
    monkeypatch.setenv("CROSSLET_RERANK_WEIGHT", text)
    assert Settings().rerank_weight == weight


@pytest.mark.parametrize("text", ["2", "-0.1", "nan", "foo", "Alone"])
def test_another_weight_is_refused_with_what_it_may_be(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CROSSLET_RERANK_WEIGHT", text)
    with pytest.raises(ValidationError, match=f"{text} is neither a number in .0, 1. nor the word alone"):
        Settings()


def test_bundled_reranker_is_named_by_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().reranker is None
    monkeypatch.setenv("CROSSLET_RERANKER", "bundled")
    assert Settings().reranker == BUNDLED_RERANKER
    assert (BUNDLED_RERANKER / "manifest.json").is_file()
    monkeypatch.setenv("CROSSLET_RERANKER", "./bundled")
    assert Settings().reranker == Path("bundled")


def test_every_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_keys_come_from_the_list_and_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("three\n\n")
    settings = Settings(api_keys=" one, two,", api_keys_file=tmp_path / "keys", read_api_keys="four")
    assert settings.keys() == {"one": FULL, "two": FULL, "three": FULL, "four": READ_ONLY}


def test_a_key_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n", encoding="utf-8-sig")
    assert Settings(api_keys_file=tmp_path / "keys").keys() == {"secret": FULL}


def test_a_key_cannot_be_both_full_and_read_only() -> None:
    with pytest.raises(StartError, match="with other rights"):
        Settings(api_keys="same", read_api_keys="same").keys()


def test_a_key_setting_without_a_key_does_not_open_the_service(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n \n")
    with pytest.raises(StartError, match="holds no key"):
        Settings(api_keys_file=tmp_path / "keys").keys()
    with pytest.raises(StartError, match="CROSSLET_API_KEYS is set but holds no key"):
        Settings(api_keys=" ,").keys()
    with pytest.raises(StartError, match="CROSSLET_READ_API_KEYS is set but holds no key"):
        Settings(read_api_keys=",").keys()
    assert Settings(api_keys="", read_api_keys="").keys() == {}


def test_a_key_file_has_entries_as_the_setting(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("one write=shop\ntwo\n")
    settings = Settings(api_keys="two", api_keys_file=tmp_path / "keys")
    assert settings.keys() == {"one": Grant(frozenset(), frozenset({"shop"})), "two": FULL}
    with pytest.raises(StartError, match="with other rights"):
        Settings(api_keys="one", api_keys_file=tmp_path / "keys").keys()


def test_metrics_are_open_unless_a_key_reaches_some() -> None:
    asked = ["a", "a, b read=*", "a, b read=shop"]
    assert [Settings(api_keys=keys).metrics_need_no_key for keys in asked] == [True, True, False]
    assert Settings(read_api_keys="a").metrics_need_no_key
    assert Settings(api_keys="b read=shop", metrics_open=True).metrics_need_no_key


def test_printing_the_settings_shows_no_key() -> None:
    assert "hunter2" not in repr(Settings(api_keys="hunter2")) + Settings(api_keys="hunter2").model_dump_json()
