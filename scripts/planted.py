#!/usr/bin/env python3
"""Plants known defects in the gateway, one at a time, and says how the simulation finds each.

    scripts/planted.py [--seeds N] [NAME ...]

A defect is a patch in internal/sim/testdata/planted. It is applied to copies of the files that it
changes, and Go builds the simulation with these in their place: the tree stays as it is. First the
corpus is played, then seeds from 1 on until one fails. A scenario of the corpus with the name of
the defect must fail. What is too rare for either has a line "Test: PACKAGE NAME" above the patch,
and that test must fail. A patch that does not apply, or does not compile, is passed over and listed at
the end. The exit status says whether every defect was planted and found.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIM = ROOT / "internal/sim"
CORPUS = SIM / "testdata/corpus"


class Unplanted(Exception):
    """A patch that does not fit the code."""


def build(patch, work):
    """Builds the simulation with a patch. Returns the program, and what stands for which file."""
    text = patch.read_text()
    replace = {}
    for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.M):
        copy = work / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not (ROOT / name).exists():
            raise Unplanted(f"there is no {name}")
        copy.write_text((ROOT / name).read_text())
        replace[str(ROOT / name)] = str(copy)
    # Without fuzz: a hunk that fits only roughly plants something else.
    done = subprocess.run(
        ["patch", "-p1", "-F0", "-f", "-s", "--no-backup-if-mismatch"],
        input=text,
        text=True,
        cwd=work,
        capture_output=True,
    )
    if done.returncode != 0:
        raise Unplanted(f"does not apply: {done.stdout}{done.stderr}")
    overlay = work / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replace}))
    program = work / "sim.test"
    done = subprocess.run(
        ["go", "test", "-c", "-overlay", overlay, "-o", program, "./internal/sim"],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    if done.returncode != 0:
        raise Unplanted(f"does not compile: {done.stderr}")
    return program, overlay


def play(program, *arguments):
    return subprocess.run(
        [program, "-test.v", "-test.timeout=0", "-shorten=0", *arguments],
        cwd=SIM,
        capture_output=True,
        text=True,
    ).stdout


def fails(package, name, overlay):
    """Whether a test of another package fails with the patch."""
    done = subprocess.run(
        ["go", "test", "-vet=off", "-overlay", overlay, "-run", f"^{name}$", package],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return f"--- FAIL: {name} " in done.stdout


def short(text):
    return text if len(text) < 110 else text[:107] + "..."


def look(patch, seeds):
    """Plays one defect. Returns whether it was found, and a line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        program, overlay = build(patch, pathlib.Path(folder))
        corpus = play(program, "-test.run=Corpus")
        played = play(program, "-test.run=Seeds", f"-seeds={seeds}", "-failures=1")
        tests = re.findall(r"^Test: (\S+) (\S+)$", patch.read_text(), re.M)
        named = [name for package, name in tests if fails(package, name, overlay)]
    files = re.findall(r"testdata/corpus/(\S+)\.json: ", corpus)
    found = [
        (int(n), what) for n, what in re.findall(r"^after \S+, seed (\d+): (.*)$", played, re.M)
    ]
    ok = bool(found or files)
    seed, what = min(found, default=("-", "not found"))
    if not found and files:
        what = re.search(r"testdata/corpus/\S+\.json: (.*)", corpus)[1]
    if not ok and named:
        ok, what = True, named[0]
    if len(named) != len(tests):
        ok, what = False, "its test does not find it"
    if (CORPUS / (patch.stem + ".json")).exists() and patch.stem not in files:
        ok, what = False, "its scenario of the corpus does not find it"
    return ok, f"| {patch.stem} | {seed} | {', '.join(files) or '-'} | {short(what)} |"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=1000, help="how many to play for each")
    arguments.add_argument("names", nargs="*", help="the defects; all without")
    chosen = arguments.parse_args()
    patches = sorted((SIM / "testdata/planted").glob("*.patch"))
    if chosen.names:
        unknown = set(chosen.names) - {p.stem for p in patches}
        if unknown:
            sys.exit("no patch is named " + ", ".join(sorted(unknown)))
        patches = [p for p in patches if p.stem in chosen.names]
    print("| defect | seed | corpus | what was violated |\n|---|---|---|---|", flush=True)
    missed, unplanted = False, []
    for patch in patches:
        try:
            found, line = look(patch, chosen.seeds)
        except Unplanted as why:
            unplanted.append(f"{patch.name} {str(why).strip()}")
            continue
        missed = missed or not found
        print(line, flush=True)
    if unplanted:
        print(
            f"\n{len(unplanted)} of {len(patches)} were not planted:",
            *unplanted,
            sep="\n",
            file=sys.stderr,
        )
    sys.exit(1 if missed or unplanted or not patches else 0)


if __name__ == "__main__":
    main()
