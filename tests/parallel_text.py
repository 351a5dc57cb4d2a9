"""Writes a small data folder of our own parallel sentences: English, German and Spanish, from a grammar.

Every sentence is correct in each language; which combinations are for training and which for evaluation never overlap.
"""

import gzip
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

SUBJECTS = [
    ("The teacher", "Der Lehrer", "El profesor"), ("My sister", "Meine Schwester", "Mi hermana"),
    ("The old man", "Der alte Mann", "El anciano"), ("A young woman", "Eine junge Frau", "Una mujer joven"),
    ("The doctor", "Der Arzt", "El médico"), ("Our neighbour", "Unser Nachbar", "Nuestro vecino"),
    ("The child", "Das Kind", "El niño"), ("Her brother", "Ihr Bruder", "Su hermano"),
    ("The farmer", "Der Bauer", "El granjero"), ("A student", "Ein Student", "Un estudiante"),
    ("The cook", "Der Koch", "El cocinero"), ("The girl", "Das Mädchen", "La chica"),
]  # fmt: skip
VERBS = [
    ("buys", "kauft", "compra"), ("sees", "sieht", "ve"), ("draws", "zeichnet", "dibuja"),
    ("sells", "verkauft", "vende"), ("finds", "findet", "encuentra"), ("loses", "verliert", "pierde"),
    ("cleans", "putzt", "limpia"), ("hides", "versteckt", "esconde"), ("needs", "braucht", "necesita"),
]  # fmt: skip
OBJECTS = [
    ("a book", "ein Buch", "un libro"), ("the guitar", "die Gitarre", "la guitarra"),
    ("an apple", "einen Apfel", "una manzana"), ("the red car", "das rote Auto", "el coche rojo"),
    ("a small dog", "einen kleinen Hund", "un perro pequeño"), ("the window", "das Fenster", "la ventana"),
    ("a letter", "einen Brief", "una carta"), ("the bread", "das Brot", "el pan"),
    ("a new house", "ein neues Haus", "una casa nueva"), ("the key", "den Schlüssel", "la llave"),
    ("a white horse", "ein weißes Pferd", "un caballo blanco"), ("the table", "den Tisch", "la mesa"),
]  # fmt: skip
TIMES = [("every day", "jeden Tag"), ("on Monday", "am Montag"), ("again", "wieder"), ("today", "heute")]
LANGUAGES = {"en": 0, "de": 1, "es": 2}
Choice = tuple[int, int, int]


def sentence(choice: Choice, language: str) -> str:
    column = LANGUAGES[language]
    subject, verb, thing = choice
    return f"{SUBJECTS[subject][column]} {VERBS[verb][column]} {OBJECTS[thing][column]}."


def write_pairs(path: Path, *, pairs: int = 2000) -> Path:
    """`english<TAB>german`, a pair a line, no sentence twice."""
    choices = list(product(SUBJECTS, VERBS, OBJECTS, TIMES))
    order = np.random.default_rng(0).permutation(len(choices))[:pairs]
    write(path, (_timed(*choices[index]) for index in order))
    return path


def _timed(subject: tuple[str, ...], verb: tuple[str, ...], thing: tuple[str, ...], time: tuple[str, ...]) -> str:
    english = f"{subject[0]} {verb[0]} {thing[0]} {time[0]}."
    return f"{english}\t{subject[1]} {verb[1]} {time[1]} {thing[1]}."


def write_data_folder(root: Path, *, pairs_per_language: int = 1000, evaluation: int = 148) -> Path:
    """`root`/parallel/sentences/en-{de,es}.tsv.gz and `root`/eval in the layout that training/run.sh reads."""
    generator = np.random.default_rng(0)
    choices = list(product(range(len(SUBJECTS)), range(len(VERBS)), range(len(OBJECTS))))
    order = [choices[index] for index in generator.permutation(len(choices))]
    held_out, training = order[: 2 * evaluation], order[2 * evaluation :][:pairs_per_language]
    for language, code in (("de", "deu"), ("es", "spa")):
        rows = (f"{sentence(choice, 'en')}\t{sentence(choice, language)}" for choice in training)
        write(root / f"parallel/sentences/en-{language}.tsv.gz", rows)
        write(root / f"eval/tatoeba/tatoeba.{code}-eng.{code}", (sentence(c, language) for c in held_out[:evaluation]))
        write(root / f"eval/tatoeba/tatoeba.{code}-eng.eng", (sentence(c, "en") for c in held_out[:evaluation]))
        for split, other in (("dev", held_out[evaluation:]), ("test", held_out[evaluation:][::-1])):
            for pair in (("en", language), (language, language), ("en", "en")):
                write(root / f"eval/stsb/{split}/{'-'.join(pair)}.tsv", similarity_rows(other, pair, generator))
    return root


def similarity_rows(choices: list[Choice], pair: tuple[str, str], generator: np.random.Generator) -> Iterator[str]:
    """Gold 0 to 5: the share of subject, verb and object that both sentences have in common; all held out."""
    left_language, right_language = pair
    for choice in choices:
        shared = generator.integers(0, 4)
        best = max(choices, key=lambda other: -abs(sum(a == b for a, b in zip(choice, other, strict=True)) - shared))
        common = sum(a == b for a, b in zip(choice, best, strict=True))
        yield f"{5 * common / 3:.2f}\t{sentence(choice, left_language)}\t{sentence(best, right_language)}"


def write(path: Path, rows: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(row + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
