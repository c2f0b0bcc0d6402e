"""The Jinja environment that applies the limits of `view/budget`: it measures values, and charges for repetitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from holdfast.states.view import budget
from holdfast.states.view.budget import CONTAINERS, METER, check, check_data, size, weight

_LONG = 128
"""Number of joined characters that cost as much as one expression."""
_SIZED = (str, bytes, list, tuple)
_WRITERS = frozenset(
    {
        "dict_to_sls_yaml_params",
        "flatten",
        "join",
        "json",
        "pprint",
        "python",
        "string",
        "sum",
        "tojson",
        "unique",
        "xml",
        "xmlattr",
        "yaml",
    }
)
"""Filters that serialise data, or visit everything in it."""
_WIDE = frozenset({"batch", "center", "indent", "json", "random_str", "round", "slice", "tojson"})
"""Filters whose result has a size that an argument determines."""
_SLOWNESS = 32
"""Cost of some slow filters, as a multiple of that of others."""
_PACED = ("combinations", "combinations_with_replacement", "permutations", "product")
"""Filters whose iterators may be very long."""
_SPEND, _JOIN, _CUT = " spend", " join", " cut"
"""Names of internal filters; they contain a space, so that no template can use them."""


def _sum(left: Any, right: Any) -> int:
    return size(left) + size(right)


def _product(left: Any, right: Any) -> int:
    if isinstance(left, int) and isinstance(right, int):
        return (left.bit_length() + right.bit_length()) // 8
    if isinstance(left, _SIZED) and isinstance(right, int):
        return weight(left) * right
    return weight(right) * left if isinstance(right, _SIZED) and isinstance(left, int) else 0


def _power(left: Any, right: Any) -> int:
    return left.bit_length() * right // 8 if isinstance(left, int) and isinstance(right, int) else 0


def _formatted(left: Any, right: Any) -> int:
    if not isinstance(left, str):
        return 0
    check_data(right if isinstance(right, tuple) else (right,))
    stars = (
        [value for value in (right if isinstance(right, tuple) else (right,)) if isinstance(value, int)]
        if "*" in left
        else ()
    )
    return max((*map(int, re.findall(r"[0-9]{1,18}", left)), *stars), default=0)


_SIZES = {"+": _sum, "*": _product, "**": _power, "%": _formatted}
"""Operator -> an upper bound of the size of its result, before it is computed; 0 if it cannot be large."""


@pass_context  # otherwise Jinja would evaluate it at compile time
def _spend(_: Context, steps: int) -> None:
    METER.spend(steps)


def _cut(value: Any) -> Any:
    check(size(value))
    return value


def _join(parts: Sequence[Any]) -> str:
    check_data(parts)
    text = concat(map(str, parts))
    if len(text) > _LONG:
        METER.spend(len(text) // _LONG)
    return text


def concat(parts: Iterable[str]) -> str:
    """Join the parts to one text. Raises `Spent` if it is too large."""
    texts = list(parts)
    check(sum(map(len, texts)))
    return "".join(texts)


def _replaced(text: Any, args: Sequence[Any]) -> int:
    old, new = (*args, None, None)[:2]
    return text.count(old) * len(new) if all(isinstance(part, str) for part in (text, old, new)) else 0


def _joined(value: Any, args: Sequence[Any]) -> int:
    other = args[0] if args else ""
    return len(value) * len(other) if isinstance(value, _SIZED) and isinstance(other, _SIZED) else 0


def _expanded(text: Any, args: Sequence[Any]) -> int:
    return text.count("\t") * args[0] if isinstance(text, str) and args and isinstance(args[0], int) else 0


def _translated(text: Any, args: Sequence[Any]) -> int:
    table = args[0] if args and isinstance(args[0], dict) else {}
    return len(text) * max((len(new) for new in table.values() if isinstance(new, str)), default=1)


def _filled(text: Any, args: Sequence[Any]) -> int:
    check_data(args)
    return max(_formatted(text, tuple(args)), _braced(text, args)) if isinstance(text, str) else 0


def _slow(text: Any, _: Sequence[Any]) -> int:
    return len(text) * _SLOWNESS if isinstance(text, str) else 0


_FORESEEN: dict[str, Callable[[Any, Sequence[Any]], int]] = {
    "replace": _replaced,
    "join": _joined,
    "expandtabs": _expanded,
    "translate": _translated,
    **dict.fromkeys(("format", "format_map"), _filled),
    **dict.fromkeys(("striptags", "urlize", "wordwrap"), _slow),
}
"""Method or filter -> an upper bound of the size of its result; 0 if it cannot be much larger than the value."""


def _braced(text: str, args: Sequence[Any]) -> int:
    """Return the largest width in a format like `{:>9}`, or `{:>{}}`."""
    given = [value for value in args if isinstance(value, int)] if re.search(r"\{[^{}]*\{", text) else ()
    return max(
        (
            *(
                int(width)
                for spec in re.findall(r"\{[^{}]*:([^}]*)", text)
                for width in re.findall("[0-9]{1,18}", spec)
            ),
            *given,
        ),
        default=0,
    )


def _measured(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that checks the size of its arguments first, and of its result after that."""
    foreseen, writes = _FORESEEN.get(name), name in _WRITERS
    passed = 1 if hasattr(function, "jinja_pass_arg") else 0  # Jinja's own argument comes before the value

    @wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Any:
        given = args[passed:]
        if name in _WIDE:
            check(max((abs(number) for number in (*given, *kwargs.values()) if isinstance(number, int)), default=0))
        elif foreseen and given:
            check(foreseen(given[0], (*given[1:], *kwargs.values())))
        if writes:
            check_data(given)
        result = function(*args, **kwargs)
        check(size(result))
        return result

    return measured


def _paced(function: Callable[..., Iterable[Sequence[Any]]]) -> Callable[..., Any]:
    """Return a filter whose iterator charges for each item, by its length."""

    @pass_context
    def paced(_: Context, *args: Any, **kwargs: Any) -> Iterator[Sequence[Any]]:
        for item in function(*args, **kwargs):
            METER.spend(len(item))
            yield item

    return paced


class BoundedEnvironment(SandboxedEnvironment):
    """A sandbox that limits the time and memory of templates."""

    concat = staticmethod(concat)
    intercepted_binops = frozenset(_SIZES)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.filters.update({_SPEND: _spend, _JOIN: _join, _CUT: _cut})

    def bound_filters(self) -> None:
        """Make all filters check the size of their results, some of them in advance."""
        self.filters.update(
            {name: _measured(name, function) for name, function in self.filters.items() if name[0] != " "}
        )
        self.filters.update({name: _paced(self.filters[name]) for name in _PACED})

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        """Add a charge to each body that may be repeated: Jinja's hook between parsing and code generation."""
        return super()._generate(_Metering().visit(source), name, filename, defer_init)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ARG002 - of Jinja
        """Evaluate an operator, whose result may be large."""
        check(_SIZES[operator](left, right))
        return self.binop_table[operator](left, right)

    # The names are Jinja's: a template may use any other name as a keyword argument.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063
        """Call a function for a template."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja has its own `format`
        owner = getattr(method, "__self__", None)
        if isinstance(owner, (str, bytes, int)):
            name = str(getattr(method, "__name__", ""))
            wide = (
                max((number for number in args if isinstance(number, int)), default=0)
                if name not in ("format", "format_map")
                else 0
            )
            check(wide)  # the width for `ljust` and similar methods
            check(_FORESEEN[name](owner, (*args, *kwargs.values())) if name in _FORESEEN else 0)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(owner, CONTAINERS) and size(owner) > budget.SIZE:  # the method may have enlarged it
            check(size(owner))
        check(size(result))
        return result


class _Metering(NodeTransformer):
    """Adds a charge to each body that may be repeated, and measures joined texts."""

    def body(self, node: Any) -> nodes.Node:
        """Add a charge to a loop, a macro, a block, or the whole template."""
        price = nodes.Const(1 + sum(len(part.nodes) if isinstance(part, nodes.Output) else 1 for part in node.body))
        self.generic_visit(node)
        node.body.insert(
            0, nodes.ExprStmt(nodes.Filter(price, _SPEND, [], [], None, None, lineno=node.lineno), lineno=node.lineno)
        )
        return node  # type: ignore[no-any-return]  # as it was

    visit_For = visit_Macro = visit_CallBlock = visit_Block = visit_Template = body  # noqa: N815 - Jinja's names

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure `a[1:]`, which Jinja leaves to Python: its result is as large as its value."""
        self.generic_visit(node)
        return (
            nodes.Filter(node, _CUT, [], [], None, None, lineno=node.lineno)
            if isinstance(node.arg, nodes.Slice)
            else node
        )

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja's name
        """Measure `a ~ b`."""
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes, lineno=node.lineno), _JOIN, [], [], None, None, lineno=node.lineno)
