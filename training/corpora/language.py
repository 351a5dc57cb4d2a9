"""Says when a text is surely not in the language it is filed under (py3langid). Silent when in doubt."""

from __future__ import annotations

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

MIN_CHARS = 20  # a shorter text says too little
MIN_CONFIDENCE = 0.95
MAX_CHARS = 200  # of a text that are looked at; the time grows with them
SAME = {"nb": {"no", "nn"}, "nn": {"no", "nb"}}  # our code: codes of the identifier that say the same


class LanguageCheck:
    """Whether texts are in a language; a language that the identifier does not know is never wrong.

    The limits were set on 139,534 texts of 23 sources, 18 languages and English (docs/corpora.md): of those it calls
    another language, nearly all are English sentences left in place of a translation.
    """

    def __init__(self, language: str) -> None:
        code = language.split("_")[0]
        self._identifier = _identifier()
        self._expected = {code} | SAME.get(code, set())
        self._knows = bool(self._expected & set(self._identifier.labels))

    def is_wrong(self, text: str) -> bool:
        """Whether a text is surely in another language."""
        if not self._knows or len(text) < MIN_CHARS:
            return False
        found, confidence = self._identifier.classify(text[:MAX_CHARS])
        return confidence >= MIN_CONFIDENCE and found not in self._expected


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
