"""Watches that others are made of."""

from __future__ import annotations

import asyncio

from holdfast.resources.context import Watch


async def idle() -> Watch:
    """A watch that is armed at once and never tells anything."""
    yield None
    await asyncio.Event().wait()


async def either(*watches: Watch) -> Watch:
    """Tells when one of these does; armed when all of them are. It raises what one of them raises, and ends when one ends."""
    unarmed, news = set(range(len(watches))), asyncio.Event()

    async def follow(number: int, watch: Watch) -> None:
        try:
            async for _ in watch:
                unarmed.discard(number)
                news.set()
        finally:
            news.set()

    followers = [asyncio.create_task(follow(number, watch), name="watch") for number, watch in enumerate(watches)]
    try:
        while True:
            await news.wait()
            news.clear()
            ended = [follower for follower in followers if follower.done()]
            if ended:
                ended[0].result()
                return
            if not unarmed:
                yield None
    finally:
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
