# ruff: noqa: RUF001 - multilingual texts
"""The texts and pairs that an artifact must answer alike on any machine: the record's, or two sentences a language."""

from __future__ import annotations

from itertools import cycle, islice

from export.checkpoint import Pair, TrainingRecord

PARITY_TEXTS: dict[str, tuple[str, ...]] = {
    "ar": ("رجل يعزف على الغيتار.", "تفتح المكتبة أبوابها في الساعة التاسعة."),
    "cs": ("Muž hraje na kytaru.", "Knihovna otevírá v devět hodin."),
    "de": ("Ein Mann spielt Gitarre.", "Die Bibliothek öffnet um neun Uhr."),
    "en": ("A man is playing a guitar.", "The library opens at nine o'clock."),
    "es": ("Un hombre toca la guitarra.", "La biblioteca abre a las nueve."),
    "fr": ("Un homme joue de la guitare.", "La bibliothèque ouvre à neuf heures."),
    "it": ("Un uomo suona la chitarra.", "La biblioteca apre alle nove."),
    "ja": ("男の人がギターを弾いています。", "図書館は九時に開きます。"),
    "ko": ("한 남자가 기타를 치고 있다.", "도서관은 아홉 시에 문을 엽니다."),
    "nl": ("Een man speelt gitaar.", "De bibliotheek gaat om negen uur open."),
    "pl": ("Mężczyzna gra na gitarze.", "Biblioteka otwiera się o dziewiątej."),
    "pt": ("Um homem toca violão.", "A biblioteca abre às nove horas."),
    "ro": ("Un bărbat cântă la chitară.", "Biblioteca se deschide la ora nouă."),
    "ru": ("Мужчина играет на гитаре.", "Библиотека открывается в девять часов."),
    "tr": ("Bir adam gitar çalıyor.", "Kütüphane saat dokuzda açılıyor."),
    "vi": ("Một người đàn ông đang chơi đàn ghi-ta.", "Thư viện mở cửa lúc chín giờ."),
    "zh": ("一个男人在弹吉他。", "图书馆九点开门。"),
}


def parity_texts(record: TrainingRecord) -> tuple[str, ...]:
    """The distinct texts in the record's languages; the last one joins them all and is long enough to be truncated."""
    texts = record.parity_texts or {
        language: PARITY_TEXTS[language] for language in record.languages if language in PARITY_TEXTS
    }
    chosen = dict.fromkeys(text for language in texts.values() for text in language) or PARITY_TEXTS["en"]
    words = [word for text in chosen for word in text.split()]
    repeats = record.max_length // len(words) + 1  # a word has at least one token
    return (*chosen, " ".join(words * repeats))


def parity_pairs(record: TrainingRecord) -> tuple[Pair, ...]:
    """In each language a text beside its translation into the next one, and beside another text.

    Last a passage and a query of all of them, each long enough to be cut.
    """
    known = [PARITY_TEXTS[language] for language in record.languages if language in PARITY_TEXTS]
    texts = known or [PARITY_TEXTS["en"]]
    pairs = [
        (query, passage)
        for (query, *_), passages in zip(texts, islice(cycle(texts), 1, None), strict=False)
        for passage in passages
    ]
    words = [word for language in texts for text in language for word in text.split()]
    long = " ".join(words * (record.max_length // len(words) + 1))  # a word has at least one token
    return (*pairs, (pairs[0][0], long), (long, pairs[0][1]))
