"""Reads the windows of a run directory that `plimsoll load --out` wrote: how many requests ended
how in each quarter of a second, and their response times."""

import base64, datetime, json, os, struct, zlib

# The header of an HDR histogram: cookie, length, offset, digits, lowest, highest, ratio.
HEADER = struct.Struct(">IIIIQQd")
HALF = 128  # buckets of equal width in each octave, for two significant digits


class Window:
    """A quarter of a second: when it was, by the wall clock, and what ended in it."""

    def __init__(self, began, line, times):
        self.start, self.seconds = began + line["start_ns"] / 1e9, line["length_ns"] / 1e9
        self.ended, self.times = sum(line["ended"].values()), times


def windows(out):
    """When a load began, by the wall clock, and its windows."""
    with open(os.path.join(out, "steps.jsonl")) as f:
        began = wall(json.loads(f.readline())["began"])
    step = os.path.join(out, "steps", "0001")
    with open(os.path.join(step, "windows.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    with open(os.path.join(step, "response.hlog")) as f:
        histograms = [decode(line.rsplit(",", 1)[1]) for line in f if line[0] not in '#"']
    if len(lines) != len(histograms):
        raise ValueError(
            f"{out} has {len(lines)} windows and {len(histograms)} histograms: it is not a whole run"
        )
    return began, [Window(began, *both) for both in zip(lines, histograms)]


def p99(windows):
    """The 99th percentile of all response times in windows, in milliseconds; None without any."""
    times = sorted(t for w in windows for t in w.times)
    rank = 0.99 * sum(n for _, n in times)
    for seconds, n in times:
        rank -= n
        if rank <= 0:
            return seconds * 1e3
    return None


def wall(text):
    """Seconds of a time as Go writes it, with nanoseconds, in UTC."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float(
        "0." + (fraction or "0")
    )


def decode(text):
    """The buckets of an HDR histogram: (the longest response time in seconds, how many) in
    ascending order."""
    payload = zlib.decompress(base64.b64decode(text)[8:])
    length = HEADER.unpack_from(payload)[1]
    buckets, index, at = [], 0, HEADER.size
    while at < HEADER.size + length:
        value, at = varint(payload, at)
        count = (value >> 1) ^ -(value & 1)
        if count > 0:
            buckets.append((longest(index) / 1e9, count))
        index += -count if count < 0 else 1
    return buckets


def varint(payload, at):
    """A LEB128 number, whose ninth byte has eight bits of it, and where the next one begins."""
    value = shift = 0
    while payload[at] >= 128 and shift < 56:
        value |= (payload[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | payload[at] << shift, at + 1


def longest(index):
    """The longest duration of a bucket, in nanoseconds."""
    if index < 2 * HALF:
        return index
    shift = index // HALF - 1
    return ((index - shift * HALF + 1) << shift) - 1
