"""The rules that ufw has loaded into the kernel, and how the agent restores them without ufw.

ufw is slow: it starts Python, and iptables more than a hundred times. Its result is a set of iptables rules. To find
the rules that ufw makes from its files, the agent runs ufw's boot script in a temporary network namespace. The agent
remembers those rules that the kernel has, too, and restores them with one iptables-restore for each family. That is one
transaction: no packet sees only half of the rules.
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
"""The chain whose existence tells ufw that it is on."""
FORWARD = "FORWARD"
"""The chain whose policy other programs may set, such as those that forward packets of containers and tunnels."""
SCRIPTS = ("/lib/ufw/ufw-init", "/usr/libexec/ufw/ufw-init")
HOOKS = ("/etc/ufw/before.init", "/etc/ufw/after.init")
"""Programs of the operator that ufw runs if they are executable. The agent does not know what they do."""
INPUTS = (
    "/etc/default/ufw", "/etc/ufw/ufw.conf", "/etc/ufw/before.rules", "/etc/ufw/before6.rules",
    "/etc/ufw/after.rules", "/etc/ufw/after6.rules", "/etc/ufw/user.rules", "/etc/ufw/user6.rules",
    "/lib/ufw/user.rules", "/lib/ufw/user6.rules", "/etc/ufw/sysctl.conf",
)  # fmt: skip
NEXT = "# holdfast: IPv6"
LOAD = f'"$0" start >&2 && iptables-save && echo "{NEXT}" && ip6tables-save'
"""A constant script of a shell: all of its commands must run in one namespace."""
ELSEWHERE = re.compile(
    r"""(?m)^[ \t]*(MANAGE_BUILTINS=["']?yes|IPT_MODULES=["']?\w|IPT_SYSCTL=(?!["']?/etc/ufw/sysctl\.conf["']?$))"""
)
"""Matches settings that make ufw do more than load rules."""
NOT_NET = re.compile(r"(?m)^\s*(?![#;]|net[./]ipv[46][./]|$)")
"""Matches a line of a sysctl file that sets something outside of a network namespace."""


class Chain(NamedTuple):
    """A chain: its policy (`-` unless it is built in), and its rules as iptables-save prints them."""

    policy: str
    rules: Sequence[str]


Chains = Mapping[str, Chain]
"""Name of a chain of the table `filter` -> the chain."""


def parse(dump: str) -> Chains:
    """Return the chains of the table `filter` from the output of iptables-save."""
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
    """Return whether a chain has the policy and, in the same order, the rules of another chain; it may have more."""
    rules = iter(chain.rules)
    return chain.policy == wanted.policy and all(rule in rules for rule in wanted.rules)


def lacks(now: Chains, wanted: Chains) -> bool:
    """Return whether a wanted chain or rule is missing."""
    return any(name not in now or not has(now[name], chain) for name, chain in wanted.items())


def restoring(now: Chains, wanted: Chains) -> str:
    """Return the input of iptables-restore that restores what is missing.

    A chain of ufw is replaced. If a built-in chain lacks some of ufw's jumps, all of these jumps are moved to its end,
    as at boot.
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
    """Return the chains of the kernel for IPv4 and IPv6; empty if iptables cannot read them."""

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
    """Load rules without changing other chains. Raises `Permanent`."""
    done = await ctx.run(f"{program}-restore", "-n", stdin=text, check=False)
    if done.retcode != 0:
        raise failure(done)


async def inputs(ctx: Context) -> str:
    """Return all files from which ufw makes its rules, except for the switch of ufw."""
    texts = []
    for path in INPUTS:
        with suppress(OSError):
            texts.append(f"\n{path}\n{await ctx.read_text(path)}")
    hooks = [path for path in HOOKS if (seen := paths.at(path).look()) is not None and seen.st_mode & 0o111]
    return re.sub(r"(?m)^ENABLED=.*", "", "".join([*texts, *hooks]))


async def rehearsed(ctx: Context, given: str) -> tuple[Chains, Chains] | None:
    """Return the chains that ufw makes from these files; None if its script does more than load them."""
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
    """Return rules that both lists have in the same order."""
    found, rest = [], list(first)
    for rule in second:
        if rule in rest:
            found.append(rule)
            rest = rest[rest.index(rule) + 1 :]
    return found


def emptied(here: Chain, made: Chain) -> bool:
    """Return whether a chain has lost all rules of ufw, which no edit of its files does.

    A built-in chain may have rules of others.
    """
    return bool(made.rules) and not (here.rules if made.policy == "-" else common(made.rules, here.rules))


class LoadedRules:
    """The rules that ufw has loaded, as far as this run or the agent has seen them.

    The kernel need not have all rules of the files: the files may have been edited but not loaded, and ufw itself
    leaves out some rules until it is restarted. So a rule counts only once the agent has seen it in the kernel. From
    then on its loss is drift, until the files declare its chain differently. At the first check, only a chain without
    any rule of ufw is drift.
    """

    def __init__(self) -> None:
        self._files = ""
        self._made: tuple[Chains, Chains] | None = None
        self._seen: tuple[Chains, Chains] = ({}, {})

    async def agrees(self, ctx: Context, now: tuple[Chains, Chains]) -> bool:
        """Return whether the kernel still has all rules of ufw's files that the agent has seen in it."""
        files = await inputs(ctx)
        before = self._made or ({}, {})
        if files != self._files:
            self._files, self._made = files, await rehearsed(ctx, files)
        made = self._made or ({}, {})
        first, second = map(told, now, made, before, self._seen)
        self._seen = first, second
        return not any(map(lacks, now, self._seen))

    async def is_current(self, ctx: Context, *, again: bool) -> bool:
        """Return whether the rules to restore are known; `again` means that ufw was off, so edited files count, too."""
        return self._made is not None and (not again or self._files == await inputs(ctx))

    async def put_back(self, ctx: Context, *, again: bool) -> None:
        """Restore missing rules that were seen; with `again`, missing rules of the files. Raises `Permanent`."""
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
    """Return the part of `made` that was seen in the kernel: now, or earlier if the files still say the same."""
    found: dict[str, Chain] = {}
    for name, chain in made.items():
        here = now.get(name)
        if here is not None and name == FORWARD and has(Chain(chain.policy, here.rules), chain):
            found[name] = Chain(here.policy, chain.rules)
        elif here is not None and has(here, chain):
            found[name] = chain
        elif name in seen_before and made_before.get(name) == chain:
            found[name] = seen_before[name]
        elif here is not None and name not in seen_before and emptied(here, chain):
            found[name] = Chain(here.policy, chain.rules)
        elif here is not None:
            found[name] = Chain(here.policy, common(chain.rules, here.rules))
    return found
