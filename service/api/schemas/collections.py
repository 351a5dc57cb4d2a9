"""Answers about named collections."""

from pydantic import BaseModel, Field

from service.api.schemas.info import CollectionInfo

SHOP = {"name": "shop", "backend": "faiss-flat", "documents": 200, "size_bytes": 308_800, "recall": 1.0}


class CollectionsOut(BaseModel):
    """All collections."""

    collections: list[CollectionInfo] = Field(description="By age, `default` first.", examples=[[SHOP]])


class DropCollectionResponse(BaseModel):
    """What was removed."""

    dropped: str = Field(description="The collection's name.", examples=["shop"])
    documents: int = Field(description="How many documents it had.", examples=[200])
