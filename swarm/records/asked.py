"""Counts what nodes asked of a bucket, by the classes that providers charge for, and its cost at public prices."""

from __future__ import annotations

from typing import NamedTuple

DAY = 86_400.0


class RequestCounts(NamedTuple):
    """Requests, and bytes of contents as packed, with those that packing spared; removals are free."""

    writes: int = 0
    lists: int = 0
    reads: int = 0
    sent: int = 0
    received: int = 0
    spared: int = 0

    @property
    def requests(self) -> int:
        return self.writes + self.lists + self.reads

    def plus(self, more: RequestCounts) -> RequestCounts:
        return RequestCounts(*(a + b for a, b in zip(self, more, strict=True)))


class RequestPrice(NamedTuple):
    """US dollars per 1,000 requests, without storage and traffic."""

    writes: float
    lists: float
    reads: float

    def of(self, asked: RequestCounts) -> float:
        return (asked.writes * self.writes + asked.lists * self.lists + asked.reads * self.reads) / 1000


PRICES = {
    "s3": RequestPrice(0.005, 0.005, 0.0004),
    "gs": RequestPrice(0.005, 0.005, 0.0004),
    "az": RequestPrice(0.0065, 0.0065, 0.0005),
}
"""Scheme of a bucket's URL -> list prices of 2025: Amazon S3 Standard in us-east-1, Google Cloud Storage Standard in
one region, Azure Blob Storage hot with local redundancy. Other servers that speak S3 charge otherwise, or nothing."""


def price_at(place: str) -> RequestPrice | None:
    """Returns the price list of a shared place; None: it is no bucket."""
    return PRICES.get(place.partition("://")[0])
