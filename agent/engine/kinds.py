"""Questions to kinds about a resource. The code of a kind may raise anything; then the answer is that of a plain kind.

The engine asks kinds nothing else, apart from the coroutines of the contract: `call/attempt.py` awaits `check_apply`
and `refresh`, `model/batch.py` `apply_together`, `execute/reversals.py` `inverse`, and `watch/` the watches and
background tasks. In each of these modules, an exception of a kind ends as a result: an outcome, a notice or a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from holdfast.resources.contract import Resource, Uid
from holdfast.resources.dependencies import Dependency
from holdfast.resources.errors import RAISED
from holdfast.resources.meta import Meta
from holdfast.resources.traits import Edgeable, Groupable, Reactive

Answer = TypeVar("Answer")
FAILED = "kind_failed"
"""Type of the error of a kind whose validator raised something else than a `ValueError`."""


def _ask(question: Callable[[], Answer], plain: Answer) -> Answer:
    """Return the answer of a kind; `plain` if it raises."""
    try:
        return question()
    except RAISED:  # the code of a kind may raise anything
        return plain


def uids(resource: Resource) -> tuple[Uid, ...]:
    """Return the uids of a resource."""
    return _ask(resource.uids, ())


def touches(resource: Resource) -> tuple[Uid, ...]:
    """Return the uids of other things that a repair of the resource changes."""
    return _ask(resource.touches, ())


def action(resource: Resource) -> bool:
    """Return whether the kind cannot tell if it needs to run."""
    if type(resource).action is Resource.action:
        return False  # fast path for most resources: this is asked several times in each run
    return _ask(resource.action, plain=False)


def period(resource: Resource, meta: Meta) -> float:
    """Return the seconds between two checks of a resource whose watch reports no events; 0 or less: no polling."""
    return resource.polled if meta.poll is None else meta.poll


def hides(resource: Resource) -> bool:
    """Return whether the state says that its content is not to be shown."""
    return resource.__dict__.get("show_changes") is False  # `getattr` is slow for a model without the field


def reacts(resource: Reactive) -> bool:
    """Return whether the declaration of the resource gives something to watch."""
    return _ask(resource.reacts, plain=True)  # then the watch fails, and the reason is reported


def same(old: Resource, new: Resource) -> bool:
    """Return whether two resources are interchangeable."""
    return old is new or _ask(lambda: old.cmp(new) is None, plain=False)


def group(resource: Resource, meta: Meta) -> Hashable:
    """Return the key of the group with which a resource may run as one batch; None: it runs alone.

    A resource with its own `timeout` runs alone, because the other members would use up its time.
    """
    if not isinstance(resource, Groupable) or meta.aggregate is False:
        return None
    if not meta.autogroup or meta.timeout is not None:
        return None
    key = _ask(resource.group, None)
    usable = _ask(lambda: hash(key) is not None, plain=False)
    return (type(resource), key) if key is not None and usable else None


def offers(resource: Resource) -> tuple[tuple[str, str], ...]:
    """Return the uids that exist once the resource is as declared."""
    return _ask(resource.offers, ()) if isinstance(resource, Edgeable) else ()


def dependencies(resource: Resource) -> tuple[Dependency, ...]:
    """Return the things that must exist for the resource to work."""
    return _ask(resource.dependencies, ()) if isinstance(resource, Edgeable) else ()


def declare(cls: type[Resource], arguments: Mapping[str, Any]) -> Resource:
    """Return the resource of a kind with these arguments.

    Raises pydantic's `ValidationError`, also if a validator of the kind raises something else.
    """
    try:
        return cls.model_validate(arguments)
    except ValidationError:
        raise
    except RAISED as error:
        wrong = PydanticCustomError(FAILED, "a validator of the kind failed: {why}", {"why": repr(error)})
        details = [InitErrorDetails(type=wrong, loc=(), input=None)]
        raise ValidationError.from_exception_data(cls.__name__, details) from error


def fields(resource: Resource, without: Collection[str]) -> str:
    """Return the fields of a resource as JSON; as Python writes them if the kind cannot convert them."""
    excluded = set(without)
    try:
        return resource.model_dump_json(exclude=excluded)
    except RAISED:  # the code of a kind may raise anything
        return repr({name: value for name, value in resource.__dict__.items() if name not in excluded})
