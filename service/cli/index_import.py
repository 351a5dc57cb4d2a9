"""`crosslet index import`: loads documents with their vectors. Heavy modules are imported when used."""

import argparse
import functools
import sys
from pathlib import Path

from service.cli.arguments import collection_argument
from service.errors import StartError
from service.settings import Settings


def import_documents(options: argparse.Namespace, settings: Settings) -> None:
    """Load documents with vectors computed elsewhere, skipping documents already in the store.

    Raises: StartError: the model, the store or a file is refused, or the user interrupts.
        InvalidInput: a document or vector is bad, or the vectors seem to be another model's; nothing was written.
    """
    from service.document_index import load_collection
    from service.model.encoder import choose_encoder
    from service.offline.embedding import engine_of
    from service.offline.loading import to_document
    from service.offline.output import progress
    from service.offline.vector_import import VectorImport, check_model, open_vector_file

    vectors = open_vector_file(options.vectors)
    read = functools.partial(to_document, max_text_chars=settings.max_text_chars)
    work = VectorImport(options.documents, vectors, read=read)
    encoder = choose_encoder(settings.model, settings.fallback_model).encoder
    collection = load_collection(settings, encoder.manifest, name=options.collection)
    try:
        try:
            with progress("check", total=vectors.count, unit="documents") as bar:
                samples = work.check(dim=encoder.manifest.dim, advance=bar.update)
            if options.model_check:
                engine = engine_of("threads", encoder, settings, prompt=encoder.prompts.document)
                check_model(samples, engine, name=encoder.manifest.name)
            with progress("import", total=vectors.count, unit="documents") as bar:
                work.load(collection, advance=bar.update)
        except KeyboardInterrupt as exc:
            raise StartError(f"stopped: {work.outcome}; run the same command again to continue") from exc
    finally:
        collection.close()
    sys.stderr.write(f"{work.outcome}\n")


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: two files and an option."""
    parser.add_argument("documents", type=Path, metavar="DOCUMENTS", help="JSON lines, as for index build")
    parser.add_argument(
        "vectors",
        type=Path,
        metavar="VECTORS",
        help="one for each line, in order: .npy of float32 or float16, or a flat FAISS index; they must come from "
        "this model",
    )
    parser.add_argument(
        "--no-model-check",
        dest="model_check",
        action="store_false",
        help="skip the check that embeds some of the texts to see whether the vectors are this model's",
    )
    collection_argument(parser)
