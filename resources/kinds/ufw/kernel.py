"""The rules that ufw has loaded into the kernel, and how they are put back without ufw.

ufw starts Python, and iptables more than a hundred times. Its result is exact: rules of iptables. Those that it makes
of its files are found by its own script, which loads them at boot, in a network namespace that exists only for this
moment. If the kernel has them, too, they are remembered, and put back by one iptables-restore for each family. That
is one transaction: no packet meets half of the rules.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.resources import paths
from holdfast.resources.context import Completed, Context
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._netfilter import LIMIT, kept

PROGRAMS = ("iptables", "ip6tables")
RUNNING = "ufw-user-input"
"""The chain by which ufw itself knows whether it is on."""
FORWARD = "FORWARD"
"""The chain whose policy others may set: programs that forward packets of containers and tunnels do."""
SCRIPTS = ("/lib/ufw/ufw-init", "/usr/libexec/ufw/ufw-init")
HOOKS = ("/etc/ufw/before.init", "/etc/ufw/after.init")
"""Programs of the operator that ufw runs, if they are executable: what they do is not known."""
INPUTS = (
    "/etc/default/ufw", "/etc/ufw/ufw.conf", "/etc/ufw/before.rules", "/etc/ufw/before6.rules",
    "/etc/ufw/after.rules", "/etc/ufw/after6.rules", "/etc/ufw/user.rules", "/etc/ufw/user6.rules",
    "/lib/ufw/user.rules", "/lib/ufw/user6.rules", "/etc/ufw/sysctl.conf",
)  # fmt: skip
NEXT = "# holdfast: IPv6"
LOAD = f'"$0" start >&2 && iptables-save && echo "{NEXT}" && ip6tables-save'
"""A constant script: all of it must run in one namespace."""
ELSEWHERE = re.compile(
    r"""(?m)^[ \t]*(MANAGE_BUILTINS=["']?yes|IPT_MODULES=["']?\w|IPT_SYSCTL=(?!["']?/etc/ufw/sysctl\.conf["']?$))"""
)
"""Settings of which ufw does more than to load rules."""
NOT_NET = re.compile(r"(?m)^\s*(?![#;]|net[./]ipv[46][./]|$)")
"""Matches in a file of sysctl that sets more than parameters of a network namespace."""


class Chain(NamedTuple):
    """A chain: its policy (`-` for one that is not built in), and its rules as iptables-save prints them."""

    policy: str
    rules: Sequence[str]


Chains = Mapping[str, Chain]
"""Name of a chain of the table `filter` -> the chain."""


def parse(dump: str) -> Chains:
    """Return the chains of the table `filter` in the output of iptables-save."""
    found: dict[str, Chain] = {}
    table = ""
    for line in dump.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif table == "filter" and line.startswith(":"):
            name, policy = line[1:].split()[:2]
            found[name] = Chain(policy, [])
        elif table == "filter" and line.startswith("-A ") and (chain := found.get(line.split()[1])):
            found[line.split()[1]] = Chain(chain.policy, [*chain.rules, line.strip()])
    return found


def has(chain: Chain, wanted: Chain) -> bool:
    """Return whether a chain has the policy and the rules of another one, in their order; it may have more."""
    rules = iter(chain.rules)
    return chain.policy == wanted.policy and all(rule in rules for rule in wanted.rules)


def lacks(now: Chains, wanted: Chains) -> bool:
    """Return whether anything is missing."""
    return any(name not in now or not has(now[name], chain) for name, chain in wanted.items())


def restoring(now: Chains, wanted: Chains) -> str:
    """Return what iptables-restore loads to put back what is missing.

    A chain of ufw is replaced. In a built-in chain without all jumps of ufw, these come last again, as at boot.
    """
    missing = {name: chain for name, chain in wanted.items() if name not in now or not has(now[name], chain)}
    lines = [f":{name} {chain.policy} [0:0]" for name, chain in missing.items()]
    for name, chain in missing.items():
        if chain.policy != "-":
            seen = now.get(name, Chain("", ())).rules
            if has(Chain(chain.policy, seen), chain):
                continue
            lines += [f"-D{rule[2:]}" for rule in seen if rule in chain.rules]
        lines += chain.rules
    return "\n".join(["*filter", *lines, "COMMIT", ""])


async def present(ctx: Context) -> tuple[Chains, Chains]:
    """Return the chains of the kernel, of IPv4 and IPv6; empty where iptables cannot read them."""

    async def chains(program: str) -> Chains:
        with suppress(Permanent):
            return parse(await kept(ctx, failure, f"{program}-save"))
        return {}

    first, second = await asyncio.gather(*map(chains, PROGRAMS))
    return first, second


def failure(done: Completed) -> Permanent:
    """Return the error of a run of iptables."""
    return Permanent(f"cannot use the chains of ufw: {reason(done)}")


async def restore(ctx: Context, program: str, text: str) -> None:
    """Load rules; other chains stay as they are. Raises `Permanent`."""
    done = await ctx.run(f"{program}-restore", "-n", stdin=text, check=False)
    if done.retcode != 0:
        raise failure(done)


async def inputs(ctx: Context) -> str:
    """Return all that ufw makes rules of, except whether it is on."""
    texts = []
    for path in INPUTS:
        with suppress(OSError):
            texts.append(f"\n{path}\n{await ctx.read_text(path)}")
    hooks = [path for path in HOOKS if (seen := paths.at(path).look()) is not None and seen.st_mode & 0o111]
    return re.sub(r"(?m)^ENABLED=.*", "", "".join([*texts, *hooks]))


async def rehearsed(ctx: Context, given: str) -> tuple[Chains, Chains] | None:
    """Return the chains that ufw makes of these files; None if its script does more than to load them."""
    sysctl = given.partition("\n/etc/ufw/sysctl.conf\n")[2]
    if given.endswith(HOOKS) or ELSEWHERE.search(given) or NOT_NET.search(sysctl):
        return None
    script = next((each for each in SCRIPTS if paths.at(each).look() is not None), None)
    if script is None:
        return None
    done = await ctx.run("unshare", "--net", "sh", "-c", LOAD, script, check=False, limit=LIMIT << 20)
    first, between, second = done.stdout.partition(NEXT)
    if done.retcode != 0 or done.truncated or not between or _other_tables(first) or _other_tables(second):
        return None
    return parse(first), parse(second)


def _other_tables(dump: str) -> bool:
    """Return whether other tables than `filter` have rules."""
    return any("\n-A " in part for part in re.split(r"(?m)^\*", dump)[1:] if not part.startswith("filter\n"))


def common(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    """Return rules that both chains have in the same order."""
    found, rest = [], list(first)
    for rule in second:
        if rule in rest:
            found.append(rule)
            rest = rest[rest.index(rule) + 1 :]
    return found


class Loaded:
    """What ufw has loaded, as far as the agent has seen it.

    The kernel need not have all that the files say: they may have been edited and not loaded, and ufw itself leaves out
    some rules until it is started again. So a rule counts once it was seen in the kernel. From then on its loss is
    damage, until the files say something else about its chain.
    """

    def __init__(self) -> None:
        self._files = ""
        self._made: tuple[Chains, Chains] | None = None
        self._seen: tuple[Chains, Chains] = ({}, {})

    async def agrees(self, ctx: Context, now: tuple[Chains, Chains]) -> bool:
        """Return whether the kernel has all that it had of what the files of ufw say."""
        files = await inputs(ctx)
        before = self._made or ({}, {})
        if files != self._files:
            self._files, self._made = files, await rehearsed(ctx, files)
        made = self._made or ({}, {})
        first, second = map(told, now, made, before, self._seen)
        self._seen = first, second
        return not any(map(lacks, now, self._seen))

    async def is_current(self, ctx: Context, *, again: bool) -> bool:
        """Return whether it is known what to put back; `again`: ufw was off, so files edited meanwhile count."""
        return self._made is not None and (not again or self._files == await inputs(ctx))

    async def put_back(self, ctx: Context, *, again: bool) -> None:
        """Put back what is missing of what was seen; with `again` all that the files say. Raises `Permanent`."""
        wanted = self._made if again and self._made is not None else self._seen
        now = await present(ctx)
        await asyncio.gather(
            *(
                restore(ctx, program, restoring(chains, given))
                for program, chains, given in zip(PROGRAMS, now, wanted, strict=True)
                if lacks(chains, given)
            )
        )


def told(now: Chains, made: Chains, made_before: Chains, seen_before: Chains) -> Chains:
    """Return what of `made` was seen in the kernel: now, or before if nothing says something else since then."""
    found: dict[str, Chain] = {}
    for name, chain in made.items():
        here = now.get(name)
        if here is not None and name == FORWARD and has(Chain(chain.policy, here.rules), chain):
            found[name] = Chain(here.policy, chain.rules)
        elif here is not None and has(here, chain):
            found[name] = chain
        elif name in seen_before and made_before.get(name) == chain:
            found[name] = seen_before[name]
        elif here is not None:
            found[name] = Chain(here.policy, common(chain.rules, here.rules))
    return found
