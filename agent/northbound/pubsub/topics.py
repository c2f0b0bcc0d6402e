"""Topics of messages, as MQTT 5 defines them in section 4.7."""

from __future__ import annotations

from holdfast.agent.northbound.errors import Invalid

LONGEST = 65_535
"""Most bytes of a topic."""
LONGEST_PART = 256
"""Most bytes of one level."""


def topic_part(text: str) -> str:
    """Return a text that may be one level of a topic; else raise `Invalid` with the reason."""
    if not text or len(text.encode("utf-8", "surrogateescape")) > LONGEST_PART:
        raise Invalid(f"{text[:20]!r} cannot be a part of a topic: it must have 1 to {LONGEST_PART} bytes")
    if wrong := sorted({each for each in text if each in "/+#" or not each.isprintable()}):
        raise Invalid(f"{text!r} cannot be a part of a topic: it has {', '.join(map(repr, wrong))}")
    if text.startswith("$"):
        raise Invalid(f"{text!r} cannot be a part of a topic: names that begin with '$' are the broker's own")
    return text


def demand_topic(topic: str) -> str:
    """Return a topic to which messages can be published. Raises `Invalid` if none can."""
    if len(topic.encode("utf-8", "surrogateescape")) > LONGEST:
        raise Invalid(f"a topic has at most {LONGEST} bytes")
    for part in topic.split("/"):
        topic_part(part)
    return topic


def matches(pattern: str, topic: str) -> bool:
    """Return whether a pattern covers a topic: `+` stands for one level, `#` for all that follow."""
    wanted, parts = pattern.split("/"), topic.split("/")
    for number, part in enumerate(wanted):
        if part == "#":
            return True
        if number >= len(parts) or part not in ("+", parts[number]):
            return False
    return len(wanted) == len(parts)
