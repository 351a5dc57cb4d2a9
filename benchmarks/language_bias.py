"""Does a document's language affect its rank? Measured on text that exists in every language.

python -m benchmarks.language_bias --data DIR [--model FOLDER] [--sentences N]

DIR has eval/stsb/test/xx-xx.tsv (score, sentence, sentence); row i is the same sentence in every language. All
sentences are indexed, and each is a query in turn. Ideally its nearest L - 1 are its translations, one a language.
Prints how far the neighbours' languages are from that, for raw vectors and two ways of centring. Takes minutes.

Shapes: N sentences, L languages, D dims.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from service.documents.document import Vectors
from service.model.encoder import Encoder, load_encoder
from service.settings import BUNDLED_MODEL


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language_bias", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/stsb/test")
    parser.add_argument("--model", type=Path, default=BUNDLED_MODEL, help="artifact folder; default: the bundled one")
    parser.add_argument("--sentences", type=int, default=400, help="maximum number of sentences (400)")
    options = parser.parse_args()
    encoder = load_encoder(options.model)
    texts = multi_way(options.data / "eval/stsb/test", encoder.manifest.languages, options.sentences)
    vectors_LND = np.stack([embed(encoder, sentences) for sentences in texts.values()])
    model, (languages, sentences, _) = encoder.manifest, vectors_LND.shape
    print(f"{model.name} {model.fingerprint[:12]}: {languages} languages, {sentences} sentences")
    centred_LND = centre(vectors_LND)
    report("not centred", vectors_LND, vectors_LND, list(texts))
    report("documents centred by language", vectors_LND, centred_LND, list(texts))
    report("documents and queries centred", centred_LND, centred_LND, list(texts))


def multi_way(folder: Path, languages: tuple[str, ...] | list[str], most: int) -> dict[str, list[str]]:
    """The first sentence of each row, by language; skips rows with repeated English and files of another length."""
    columns = {}
    for language in languages:
        path = folder / f"{language}-{language}.tsv"
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                columns[language] = [row[1] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    english = columns["en"]
    rows = list({text: row for row, text in reversed(list(enumerate(english)))}.values())[::-1]
    chosen = rows[:: max(1, len(rows) // most)][:most]
    return {
        language: [column[row] for row in chosen] for language, column in columns.items() if len(column) == len(english)
    }


def embed(encoder: Encoder, texts: list[str]) -> Vectors:
    """Embed one text at a time, like the service: (N, D)."""
    return np.stack([encoder.encode(text).vector for text in texts])


def centre(vectors_LND: Vectors) -> Vectors:
    """Move each language's mean to the overall mean, then normalise to unit length."""
    moved = vectors_LND - vectors_LND.mean(axis=1, keepdims=True) + vectors_LND.mean(axis=(0, 1))
    unit: Vectors = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
    return unit


def report(name: str, query_LND: Vectors, document_LND: Vectors, languages: list[str]) -> None:
    count, sentences, _ = query_LND.shape
    documents = document_LND.reshape(count * sentences, -1)
    language_of, sentence_of = np.divmod(np.arange(count * sentences), sentences)
    share = np.zeros((count, count))  # of neighbours, by language of query and document
    recall = np.zeros((count, count))
    for language in range(count):
        scores = query_LND[language] @ documents.T
        scores[np.arange(sentences), language * sentences + np.arange(sentences)] = -np.inf  # the query itself
        nearest = np.argsort(-scores, axis=1)[:, : count - 1]
        share[language] = np.bincount(language_of[nearest].ravel(), minlength=count) / nearest.size
        found = sentence_of[nearest] == np.arange(sentences)[:, None]
        recall[language] = np.bincount(language_of[nearest][found], minlength=count) / sentences
    ideal = (1 - np.eye(count)) / (count - 1)
    distance = 0.5 * np.abs(share - ideal).sum(axis=1)
    others = ~np.eye(count, dtype=bool)
    print(f"\n{name}")
    print(f"  translations found among the nearest {count - 1}: {100 * recall[others].mean():.1f} %")
    print(f"  neighbours in the query's own language (ideally none): {100 * np.diag(share).mean():.1f} %")
    print(f"  distance from the ideal split (total variation): {100 * distance.mean():.1f} %")
    print(f"  {'document in':12}" + "".join(f"{language:>6}" for language in languages))
    for title, matrix in (("share, %", share), ("found, %", recall)):
        means = [100 * matrix[others[:, column], column].mean() for column in range(count)]
        print(f"  {title:12}" + "".join(f"{mean:6.1f}" for mean in means))


if __name__ == "__main__":
    main()
