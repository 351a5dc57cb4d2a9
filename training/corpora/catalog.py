"""The catalogue of known corpora: what each is, its licence, and what can be downloaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from training.config.parsing import ConfigModel, build, read_yaml
from training.config.run import RunConfig, Terms
from training.errors import ConfigError


class SourceFiles(ConfigModel):
    """A corpus's downloads.

    Args:
        urls: templates; {code} is the publisher's language code, {pair} that code and `en` in alphabetical order.
        format: how pairs are packed; `unpacked` (a zip) and `plain` are evaluation sets, kept in their layout.
        codes: our language code -> the publisher's, where they differ.
        sha256: language -> checksum of its file, where known; `*`: of one file for all languages.
        folder: under eval/, for an evaluation set.
    """

    urls: list[str]
    format: Literal["moses", "tmx", "multiway", "tsv_zip", "unpacked", "plain"]
    codes: dict[str, str] = Field(default={})
    sha256: dict[str, str] = Field(default={})
    folder: str = ""

    def code(self, language: str) -> str:
        """Return the publisher's code of a language."""
        return self.codes.get(language, language)

    def addresses(self, language: str) -> list[str]:
        """Return the URLs of a language's files."""
        code = self.code(language)
        return [url.format(code=code, pair="-".join(sorted(("en", code)))) for url in self.urls]


class CatalogEntry(ConfigModel):
    """One corpus. `terms`: what its licence asks of who passes its text on; other: non-commercial, or not stated."""

    title: str
    licence: str
    terms: Terms
    url: str  # its home page
    kind: Literal["parallel", "questions", "evaluation"] = "parallel"
    languages: list[str] = Field(default=[])  # to download, besides English
    files: SourceFiles | None = None  # None: nothing to download


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """Return every known source by name."""
    path = Path(__file__).parent / "catalog.yaml"
    return {name: build(CatalogEntry, entry, where=f"{path.name}: {name}") for name, entry in read_yaml(path).items()}


def source_row(name: str, pairs: int) -> dict[str, Any]:
    """What a model card says of a source that was trained on."""
    entry = load_catalog().get(name)
    about = (entry.title, entry.licence, entry.url) if entry else (name, "see the source", "")
    return dict(zip(("source", "licence", "url", "pairs"), (*about, pairs), strict=True))


def check_terms(allowed: list[Terms] | None, trained_on: Mapping[str, Iterable[str]]) -> None:
    """Check the licences of all text that a configuration trains on, where it limits them.

    Args: trained_on: setting -> names of sources.

    Raises: ConfigError: a source has other terms, or is not in the catalogue.
    """
    if allowed is None:
        return
    known = load_catalog()
    for place, names in trained_on.items():
        for name in names:
            if name not in known:
                raise ConfigError(f"{place} has {name!r}, which the catalogue lacks; terms: null takes any text")
            if known[name].terms not in allowed:
                raise ConfigError(
                    f"{place} has {name!r}, whose terms are {known[name].terms} ({known[name].licence}); terms "
                    f"allows {', '.join(allowed)}"
                )


def within_terms(config: RunConfig, allowed: list[Terms]) -> RunConfig:
    """Return the configuration without its sources under other terms, or not in the catalogue."""
    known = load_catalog()
    values = config.model_dump()
    for sources in (values["corpus"]["sources"], values["passages"]["sets"]):
        for name in [name for name in sources if name not in known or known[name].terms not in allowed]:
            del sources[name]
    values["corpus"]["terms"] = allowed
    return build(RunConfig, values, where=f"terms {', '.join(allowed)}")
