"""The catalogue of known corpora: what each is, under which licence, what can be downloaded. Downloads nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from training.config.parsing import build, read_yaml


@dataclass(frozen=True)
class SourceFiles:
    """What a publisher offers for download.

    Args:
        urls: templates: {code} is the language as the source writes it, {pair} that and `en` in alphabetical order.
        format: how pairs are packed; `unpacked` and `plain` are evaluation sets, kept as they are.
        codes: our language -> the source's, where they differ.
        sha256: language -> checksum of its file, where the publisher states one; `*`: of the one file of all.
        folder: of an evaluation set, under eval/.
    """

    urls: list[str]
    format: Literal["moses", "tmx", "multiway", "tsv_zip", "unpacked", "plain"]
    codes: dict[str, str] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    folder: str = ""

    def code(self, language: str) -> str:
        """A language as the source writes it."""
        return self.codes.get(language, language)

    def addresses(self, language: str) -> list[str]:
        """Where a language's files are."""
        code = self.code(language)
        return [url.format(code=code, pair="-".join(sorted(("en", code)))) for url in self.urls]


@dataclass(frozen=True)
class CatalogEntry:
    """One corpus. `permissive`: its text may be passed on and used without conditions on the result."""

    title: str
    licence: str
    permissive: bool
    url: str  # its home
    kind: Literal["parallel", "evaluation"] = "parallel"
    languages: list[str] = field(default_factory=list)  # that can be downloaded, besides English
    files: SourceFiles | None = None  # None: there is no plain archive to download


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """Every known source by name."""
    path = Path(__file__).parent / "catalog.yaml"
    return {name: build(CatalogEntry, entry, where=f"{path.name}: {name}") for name, entry in read_yaml(path).items()}
