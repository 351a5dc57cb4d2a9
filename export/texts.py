# ruff: noqa: RUF001 - multilingual texts
"""Texts for checkpoints without their own: two sentences in many languages, or a user's file."""

from pathlib import Path

from export.errors import BadRequest
from training.system.text_files import text_lines

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


def read_texts(path: Path) -> tuple[str, ...]:
    """Read one text a line, without empty lines. Only a line feed ends a line.

    Raises: BadRequest: the file cannot be read, a line is not UTF-8 (names it), or there is no text.
    """
    try:
        lines = [line.rstrip("\r") for _, line in text_lines(path, error=ValueError)]
    except ValueError as exc:
        raise BadRequest(f"{exc} (--calibration)") from exc
    texts = tuple(line for line in lines if line.strip())
    if not texts:
        raise BadRequest(f"{path} has no text (--calibration)")
    return texts
