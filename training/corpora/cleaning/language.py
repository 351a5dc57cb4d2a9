"""Says when a text is surely not in the language it is filed under (py3langid). Silent when in doubt."""

from __future__ import annotations

from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

MIN_CHARS = 20  # a shorter text says too little
MAX_CHARS = 200  # of a text that are looked at; the time grows with them
OTHER_AT_LEAST = 0.7  # the probability of another language
OWN_AT_MOST = 0.05  # the probability of its own
SAME = {"nb": ("nb", "no", "nn"), "nn": ("nn", "no", "nb")}  # our code: codes of the identifier that will do


class LanguageCheck:
    """Whether texts are in a language; one that the identifier does not know is never wrong.

    The limits were set on 42,720 texts of 22 sources in 63 languages (docs/guide/corpora.md): 0.24% of them are called
    wrong, nearly all of which are; of English sentences filed under another language 87% are found.
    """

    def __init__(self, language: str) -> None:
        code = language.split("_")[0]
        self._identifier = _identifier()
        self._own = [name for name in SAME.get(code, (code,)) if name in self._identifier.labels]

    def is_wrong(self, text: str) -> bool:
        """Whether a text is surely in another language."""
        if not self._own or len(text) < MIN_CHARS:
            return False
        ranked = self._identifier.rank(text[:MAX_CHARS])
        probability = dict(ranked)
        own = sum(probability[name] for name in self._own)
        return bool(ranked[0][1] >= OTHER_AT_LEAST and own <= OWN_AT_MOST)


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
