"""Chooses the engine for bulk embedding: threads of this process, or actors of a Ray cluster."""

from service.bulk.engine import Engine, behind_prompt, in_space, threads_engine
from service.model.encoder import Encoder
from service.model.spaces import stored_as
from service.process.cpus import usable_cpus
from service.settings import Settings

ENGINES = ("threads", "ray")


def engine_of(name: str, encoder: Encoder, settings: Settings, *, prompt: str) -> Engine:
    """Return the engine of that name (see ENGINES) for the encoder's model, prepending `prompt` to each text."""
    engine = _engine_of(name, encoder, settings)
    return behind_prompt(engine, prompt) if prompt else engine


def documents_engine(name: str, encoder: Encoder, settings: Settings) -> Engine:
    """Return an engine for documents: with the model's document prompt, in the space named by the settings.

    Raises: ArtifactError: the model has no such space.
    """
    stored_as(encoder.manifest, settings.space)
    engine, space = engine_of(name, encoder, settings, prompt=encoder.prompts.document), settings.space
    return in_space(engine, encoder.spaces.maps[space]) if space else engine


def _engine_of(name: str, encoder: Encoder, settings: Settings) -> Engine:
    if name == "ray":
        from service.bulk.ray_engine import Model, ray_engine

        fingerprint, dim = encoder.manifest.fingerprint, encoder.manifest.dim
        folder, fallback = (
            settings.model.absolute(),
            settings.fallback_model,
        )  # absolute: actors have another working directory
        return ray_engine(Model(folder, fallback and fallback.absolute(), fingerprint, dim))
    return threads_engine(encoder.encode_all, workers=settings.workers or usable_cpus(), dim=encoder.manifest.dim)
