"""The lab's command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lab import checks, image, lifecycle, network, setup, topics
from lab.podman import PodmanError, containers, is_alive
from lab.progress import Clock, StepFailed
from lab.topology import ALL_HOSTS, DEFAULT_NAME, PARTS, Lab, expand


def up(args: argparse.Namespace) -> int:
    clock = Clock()
    with network.locked(args.name):
        node_image = _image(args, clock)
        before = lifecycle.standing(args.name)
        only = expand((*args.only, *before.only) if args.only and before else args.only)
        lab = Lab(args.name, network.claim(args.name, args.number), only)
        clock.say(f"lab {lab.name}: {len(lab.only)} hosts on {lab.prefix('hq')}.0 and {lab.prefix('site')}.0/24")
        lifecycle.create(lab, clock, node_image)
        clock.say("  waiting for every part to answer")
        failed = checks.wait(lab, args.timeout, clock)
        if not failed:
            topics.ensure(lab)
    for check, wrong in failed:
        print(f"\n{check.part} does not answer: {wrong}\n{checks.evidence(lab, check)}", file=sys.stderr)
    if not failed:
        clock.say(f"lab {lab.name} is up")
    return 1 if failed else 0


def down(args: argparse.Namespace) -> int:
    clock = Clock()
    with network.locked(args.name):
        gone = lifecycle.down(args.name)
    clock.say(f"lab {args.name}: {', '.join(gone) if gone else 'nothing was there'}{' removed' if gone else ''}")
    return 0


def status(args: argparse.Namespace) -> int:
    lab = lifecycle.standing(args.name)
    if lab is None:
        print(f"lab {args.name} is down")
        return 1
    there = containers(args.name)
    for name, node in sorted(there.items()):
        addresses = " ".join(n["IPAddress"] for n in node["NetworkSettings"]["Networks"].values())
        state = node["State"]["Status"] if node["State"]["Status"] != "running" or is_alive(node) else "dead"
        print(f"{name:20} {state:10} {addresses}")
    return 1 if checks.wait(lab, 2, Clock()) else 0


def node(args: argparse.Namespace) -> int:
    lab = lifecycle.standing(args.name)
    if lab is None:
        raise StepFailed(f"lab {args.name} is down", f"bring it up: python3 tests/lab up --name {args.name}")
    with network.locked(args.name):
        if args.action == "rm":
            lifecycle.remove_nodes(lab, lifecycle.extra_nodes(args.name) if args.nodes == ["all"] else args.nodes)
            return 0
        node_image = args.image or image.build(args.packages)
        for name, address in lifecycle.add_nodes(lab, args.nodes, node_image).items():
            print(lab.container(name), address)
    return 0


def build_image(args: argparse.Namespace) -> int:
    print(image.build(args.packages))
    return 0


def run_setup(args: argparse.Namespace) -> int:
    return setup.run(args.steps, args.quiet)


def _image(args: argparse.Namespace, clock: Clock) -> str:
    if not image.exists(image.tag()):
        clock.say("building the node image")
    return image.build()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 tests/lab", description="The lab: HQ behind a NAT, and a site.")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    one = command("up", up, "bring a lab up, or heal it; ends when every part answers")
    one.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="HOST",
        help=f"only these hosts or parts: {', '.join((*PARTS, *ALL_HOSTS))}",
    )
    one.add_argument("--number", type=int, help="subnets of this lab: 198.18.0.0 + 4 * NUMBER /24 (default: free ones)")
    one.add_argument("--timeout", type=float, default=240, help="seconds for all parts to answer (default 240)")
    two = command("down", down, "take a lab down and leave nothing of it")
    three = command("status", status, "list a lab's hosts and ask its parts")
    four = command("node", node, "add plain hosts to a lab's site, or remove them")
    four.add_argument("action", choices=("add", "rm"))
    four.add_argument("nodes", nargs="+", metavar="NODE", help="their names; `rm all` removes every added one")
    four.add_argument("--image", help="another image than the lab's own")
    four.add_argument("--packages", nargs="+", default=(), metavar="PACKAGE", help="packages beyond the lab's own")
    for sub in (one, two, three, four):
        sub.add_argument("--name", default=DEFAULT_NAME, help=f"the lab's name (default {DEFAULT_NAME})")
    five = command("image", build_image, "build the node image if need be, print its name")
    five.add_argument("packages", nargs="*", metavar="PACKAGE", help="packages beyond the lab's own")
    six = command("setup", run_setup, "install all that the project needs on this machine")
    six.add_argument("--quiet", action="store_true", help="tell only of steps that do something")
    six.add_argument("steps", nargs="*", metavar="STEP", help="only these steps: " + ", ".join(setup.STEPS))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if os.geteuid() != 0:
        print(f"lab {args.command}: needs root, for containers and networks: run it with sudo", file=sys.stderr)
        return 1
    try:
        network.mend_namespaces()
        result: int = args.run(args)
        return result
    except StepFailed as error:
        print(f"{args.command} failed: {error.cause}\nto mend it: {error.mend}", file=sys.stderr)
    except (PodmanError, ValueError) as error:
        print(f"{args.command} failed: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted; run it again to go on", file=sys.stderr)
    return 1
