#!/usr/bin/env python3
"""Convert the run directory of a survey or a load, or the directory of an experiment, that a
plimsoll wrote before its files had a schema_version.

    scripts/convert_run.py DIR [DIR ...]            # in place; what was there is kept as DIR.old
    scripts/convert_run.py RUN.tar.gz [...]         # an archive of one run directory, likewise
    scripts/convert_run.py --replace DIR [...]      # keeps nothing

The figures stay as they are. Only keys change, the name of the phase in which the load line was
held, and a finding's rank.
"""

import argparse
import io
import json
import pathlib
import re
import shutil
import sys
import tarfile

VERSION = 2

# The keys whose new name is not their old one in snake_case, by the object that they are in.
RENAMED = {
    "Format": "schema_version",
    "Start": "start_ns",
    "Length": "length_ns",
    "Drain": "drain_ns",
    "Settle": "settle_ns",
    "At": "at_ns",
    "BytesIn": "bytes_received",
    "BytesOut": "bytes_sent",
    "Reused": "connections_reused",
    "Resumed": "sessions_resumed",
    "Crowds": "concurrency_at_send",
    "Squares": "sum_of_squares_ns2",
    "Sum": "sum_ns",
    "Max": "max_ns",
    "Busy": "busy_share",
    "Interval": "rate_per_second",
    "Rate": "rate_per_second",
    "Goodput": "goodput_per_second",
    "Allowed": "allowed_share",
    "After": "after_seconds",
    "Per": "per_request",
    "Bound": "bound_per_second",
    "Smallest": "smallest_resource",
    "PeakN": "peak_concurrency",
    "PeakX": "peak_per_second",
    "Reach": "reach_concurrency",
    "Want": "expected",
    "Got": "found",
    "Relevant": "relevant_share",
}
WITHIN = {
    "Totals": {"Peak": "peak_in_flight"},
    "Generator": {"CPU": "cpu_ns"},
    "Predictions": {
        "Made": "after_step",
        "Upto": "upto_per_second",
        "Line": "predicted_per_second",
        "Measured": "measured_per_second",
        "Error": "error_share",
    },
    "Noise": {
        "P50": "p50_share",
        "P99": "p99_share",
        "Goodput": "goodput_share",
        "CPU": "cpu_share",
    },
    # An experiment's lines, and its comparisons.
    "rounds.jsonl": {"After": "after"},
    "Comparisons": {"Share": "relative"},
}
# Objects whose keys are names of other things.
FREE = {"Settings", "Values", "Ended", "Examples", "Figures", "Before", "After"}
# The order of an array of counts by how requests ended, which experiments had.
KINDS = [
    "ok",
    "bad_status",
    "bad_answer",
    "timeout",
    "connect_failed",
    "connection_lost",
    "bad_http",
    "not_sent",
    "unfinished",
]
SUB = 128  # of a histogram's buckets; see internal/lab/measure/histogram.go


def snake(name):
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def histogram(old):
    """A histogram with its buckets' bounds in the place of their numbers."""
    buckets = []
    for cell in old["Cells"] or []:
        i = cell["Bucket"]
        shift = max(0, i // SUB - 1)
        low = i if i < 2 * SUB else (i - shift * SUB) << shift
        buckets.append({"from_ns": low, "to_ns": low + (1 << shift) - 1, "count": cell["Count"]})
    return {"sum_ns": old["Sum"], "max_ns": old["Max"], "buckets": buckets}


def convert(value, within):
    if isinstance(value, list):
        return [convert(v, within) for v in value]
    if not isinstance(value, dict):
        return value
    if "Cells" in value:
        return histogram(value)
    out = {}
    for key, v in value.items():
        name = WITHIN.get(within, {}).get(key) or RENAMED.get(key) or snake(key)
        if key == "Phase" and v == "knee":
            v = "at-line"
        if key == "Ended" and isinstance(v, list):
            v = {kind: n for kind, n in zip(KINDS, v) if n or kind == "ok"}
        elif key == "Ended" and isinstance(v, dict):
            v = {"ok": 0, **v}
        elif key in FREE and isinstance(v, dict):
            pass
        else:
            v = convert(v, key)
        if v is not None or key in ("USL", "Result"):
            out[name] = v
    return out


def converted(name, text):
    """A file's new text, or None where it is not one that changes."""
    if name.endswith(".jsonl"):
        within = "rounds.jsonl" if name == "rounds.jsonl" else ""
        # A last line that was cut off stays as it is: a reader knows it by the newline that is
        # missing.
        lines = text.split("\n")
        return "\n".join([dump(convert(json.loads(l), within)) for l in lines[:-1]] + lines[-1:])
    if name not in ("run.json", "result.json", "experiment.json"):
        return None
    document = json.loads(text)
    if "Format" not in document:
        raise ValueError("it has no Format: it is new already, or is not one of plimsoll's")
    document["Format"] = VERSION
    return dump(convert(document, ""), indent=2) + "\n"


def dump(value, indent=None):
    return json.dumps(
        value, indent=indent, ensure_ascii=False, separators=None if indent else (",", ":")
    )


def directory(path, replace):
    if not ((path / "run.json").is_file() or (path / "experiment.json").is_file()):
        raise ValueError("it has neither a run.json nor an experiment.json")
    new = path.with_name(path.name + ".new")
    shutil.copytree(path, new)
    try:
        for f in sorted(new.rglob("*.json*")):
            text = converted(f.name, f.read_text())
            if text is not None:
                f.write_text(text)
    except BaseException:
        shutil.rmtree(new)
        raise
    exchange(path, new, replace)


def archive(path, replace):
    new = path.with_name(path.name + ".new")
    try:
        with tarfile.open(path) as old, tarfile.open(new, "w:gz", compresslevel=9) as out:
            for member in old:
                data = old.extractfile(member).read() if member.isfile() else None
                text = (
                    converted(pathlib.PurePath(member.name).name, data.decode())
                    if data and ".json" in member.name
                    else None
                )
                if text is not None:
                    data = text.encode()
                    member.size = len(data)
                out.addfile(member, io.BytesIO(data) if data is not None else None)
    except BaseException:
        new.unlink()
        raise
    exchange(path, new, replace)


def exchange(path, new, replace):
    old = path.with_name(path.name + ".old")
    if old.exists():
        raise ValueError(f"{old} is there already: remove it first")
    path.rename(old)
    new.rename(path)
    if replace:
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("paths", nargs="+", type=pathlib.Path, metavar="DIR")
    p.add_argument("--replace", action="store_true", help="do not keep what was there")
    a = p.parse_args()
    failed = False
    for path in a.paths:
        try:
            (directory if path.is_dir() else archive)(path, a.replace)
        except (OSError, ValueError, KeyError, tarfile.TarError) as e:
            print(f"{path} is not converted: {e}", file=sys.stderr)
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
