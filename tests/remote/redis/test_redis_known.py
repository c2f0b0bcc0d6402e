"""The provider remembers the keys that the agent has read, and forgets those that have left the states."""

from __future__ import annotations

import asyncio
import json
import subprocess

import typescript
from deadline import DEADLINE

REVIEW = """
const { KnownKeys } = await import(process.argv[1]);
const known = new KnownKeys(10, 50);
let missed = 0;
const end = known.watched(() => (missed += 1));
for (let n = 0; n <= 10; n++) known.add(`k${n}`);
const during = [missed, known.has("k1"), known.size];
for (const each of ["k1", "k2"]) known.add(each); // the agent still watches these
while (known.has("k0")) await new Promise((resolve) => setTimeout(resolve, 5));
const after = [known.has("k1"), known.has("k2"), known.size];
for (let n = 0; n <= 8; n++) known.add(`new${n}`);
const again = missed;
end();
for (let n = 0; n <= 100; n++) known.add(`more${n}`);
console.log(JSON.stringify({ during, after, again, ended: missed }));
"""


def test_keys_that_are_not_read_again_after_a_review_are_forgotten(redis_program):
    """Until then, all keys are known, and every watch has reported that changes may have been missed."""
    command = [typescript.node(), "--input-type=module", "--eval", REVIEW, str(redis_program.with_name("known.js"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=True)

    assert json.loads(done.stdout) == {
        "during": [1, True, 11],
        "after": [True, True, 2],
        "again": 2,
        "ended": 2,
    }


async def test_the_agent_reads_its_keys_again_when_the_provider_knows_very_many(provider, redis):
    """The watch requests this. A key that is read again is still watched."""
    await provider.settled("redis.key", name="k", text="a")
    events = provider.watch("redis.key")
    assert (await asyncio.wait_for(anext(events), DEADLINE)).armed
    await provider.read_many("redis.key", [{"name": f"other{number}", "text": ""} for number in range(10_001)])
    assert (await asyncio.wait_for(anext(events), DEADLINE)).relist
    redis.ask("SET", "k", "damaged")

    assert (await asyncio.wait_for(anext(events), DEADLINE)).id == "0:k"
