# ruff: noqa: RUF001 - letters of several alphabets
"""Requests whose responses can be checked: one text of each is known, all others are new.

Requests share at most the known text, since the service may compute equal texts in flight only once.
"""

from benchmarks.endurance.wire import Connection, request_bytes

BATCH_TEXTS = 32
SENTENCES = (
    "The ferry to the islands leaves at seven and takes a little under two hours.",
    "Ich habe den Schlüssel gestern bei der Nachbarin im dritten Stock abgegeben.",
    "La bibliothèque reste ouverte pendant les travaux, mais l'entrée est derrière.",
    "El mercado abre temprano y a las diez ya no queda pan.",
    "Toplantı yarın sabah dokuza alındı, lütfen geç kalmayın.",
    "سيصل القطار متأخرا نصف ساعة بسبب الأمطار.",
    "请把窗户关上，外面开始下雨了。",
    "Short one.",
)


def batch_request(number: int) -> bytes:
    """A request with BATCH_TEXTS texts: a known text chosen by number, then new ones."""
    new = [f"{SENTENCES[(number + place) % len(SENTENCES)]} {number}-{place}" for place in range(1, BATCH_TEXTS)]
    return request_bytes("POST", "/embed", {"inputs": [SENTENCES[number % len(SENTENCES)], *new]})


class Known:
    """The known texts' vectors, as the idle service returned them."""

    def __init__(self, vectors: list[bytes]) -> None:
        self._vectors = vectors

    @classmethod
    async def ask(cls, port: int) -> "Known":
        """Embed each known text alone."""
        connection = Connection(port)
        answers = [await connection.ask(request_bytes("POST", "/embed", {"inputs": text})) for text in SENTENCES]
        await connection.close()
        return cls([answer.body[1:-1] for answer in answers])  # [[..]] -> [..]

    def is_right(self, number: int, body: bytes) -> bool:
        """Whether a response has all vectors of its batch, and the known one to the last digit."""
        known = b"[" + self._vectors[number % len(SENTENCES)] + b",["
        return body.startswith(known) and body.count(b"],[") == BATCH_TEXTS - 1
