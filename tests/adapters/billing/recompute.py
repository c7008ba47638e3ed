"""A second program for the same bill: ``recompute.py LOG PROFILE`` prints the sums of a wire log as JSON.

Standard library only, and nothing of the package: it was written from ``specs/billing.md``, plainly, where the
product is written for speed. Prefixes are named by running SHA-256 sums, every request is looked at whole.
"""

import hashlib
import json
import sys
from pathlib import Path

PRICES = {  # read, write, output, lifetime in seconds
    "anthropic-5m": (0.1, 1.25, 5.0, 300),
    "anthropic-1h": (0.1, 2.0, 5.0, 3600),
    "openai": (0.1, 1.0, 8.0, 600),
    "openai-write": (0.1, 1.25, 8.0, 1800),
    "deepseek": (0.1, 1.0, 1.5, 86400),
}


def minimum(name, model):
    if name == "deepseek":
        return 0
    if name.startswith("openai"):
        return 1024
    model = model.lower().replace(".", "-")
    if any(part in model for part in ("opus-4-5", "opus-4-6", "opus-4-7", "haiku-4-5")):
        return 4096
    if any(part in model for part in ("haiku-3", "claude-3-haiku", "claude-3-5-haiku")):
        return 2048
    return 1024


def prefixes(model, blocks):
    """Return [(name of the prefix, its tokens)], one for each block."""
    running, tokens, out = hashlib.sha256(model.encode()), 0, []
    for digest, _, count in blocks:
        running.update(b"/" + digest.encode())
        tokens += count
        out.append((running.hexdigest(), tokens))
    return out


def serve(name, line, cache, answers, now):
    """Return (tokens read, tokens in the cache afterwards) and bring the cache up to date."""
    life = PRICES[name][3] * 1000
    pre = prefixes(line["model"], line["blocks"])
    total = pre[-1][1] if pre else 0
    least = minimum(name, line["model"])

    def lives(i):
        return pre[i][0] in cache and now - cache[pre[i][0]] <= life

    if name in ("openai", "deepseek"):
        step = 128 if name == "openai" else 64

        def cut(n):
            n -= n % step
            return n if n >= least else 0

        common = 0
        for i in range(len(pre)):
            if lives(i):
                common = pre[i][1]
                if name == "deepseek":
                    common = min(total, common + answers.get(pre[i][0], 0))
        for key, _ in pre:
            cache[key] = now
        if pre:
            answers[pre[-1][0]] = line["output_tokens"] or 0
        return cut(common), cut(total)

    marks = line["breakpoints"] or []
    if name == "openai-write":
        marks = [m for m in marks if m != len(pre) - 1][:3] + ([len(pre) - 1] if pre and total >= least else [])
        reach = range(len(pre))
    else:
        reach = set()
        for mark in marks:
            if pre[mark][1] >= least:
                reach |= set(range(max(0, mark - 20), mark + 1))
    marks = [m for m in marks if pre[m][1] >= least]
    if not marks or (name == "openai-write" and total < least):
        return 0, 0
    read = 0
    hit = None
    for i in sorted(reach):
        if lives(i):
            read, hit = pre[i][1], i
    for i in [*marks, *([] if hit is None else [hit])]:
        cache[pre[i][0]] = now
    return read, pre[marks[-1]][1]


def recompute(lines, name):
    """Return the sums of a log, given as parsed lines."""
    price_read, price_write, price_output, _ = PRICES[name]
    cache, answers, had, last = {}, {}, {}, {}
    now = 0
    sums = dict.fromkeys(("read", "written", "uncached", "rewritten", "output", "added", "requests", "refused"), 0)
    cost = added = 0.0
    for line in lines:
        kind = line.get("kind", "main")
        if kind == "refused":
            sums["refused"] += 1
            continue
        now = max(now, line["at"])
        read, cached = serve(name, line, cache, answers, now)
        total = sum(block[2] for block in line["blocks"])
        output = line["output_tokens"] or 0
        spent = price_read * read + price_write * (cached - read) + (total - cached) + price_output * output
        cost += spent
        if kind == "main":
            sums["requests"] += 1
        else:
            sums["added"] += 1
            added += spent
        sums["read"] += read
        sums["written"] += cached - read
        sums["uncached"] += total - cached
        sums["output"] += output
        found = again(line, had.setdefault(line["session"], {}), read, cached)
        pre = prefixes(line["model"], line["blocks"])
        if not whole(last.get(line["session"]), pre, read):
            sums["rewritten"] += found
        if kind == "main" and cached:
            end = len(pre) - 1
            if name.startswith("anthropic"):
                end = max(mark for mark in line["breakpoints"] if pre[mark][1] == cached)
            last[line["session"]] = (pre[end][0], cached)
        elif kind == "main":
            last.setdefault(line["session"], (None, 0))
    return {**sums, "cost": cost, "added_cost": added}


def whole(left, pre, read):
    """Whether all the session last left in the cache was read: then nothing is paid for again."""
    if left is None:
        return False
    key, tokens = left
    return key is None or (read >= tokens and any(one == key for one, _ in pre))


def again(line, had, read, cached):
    """Return the tokens not read now that the cache had held, and note what it holds."""
    seen, begin, found, news = {}, 0, 0, {}
    for digest, _, tokens in line["blocks"]:
        seen[digest] = seen.get(digest, 0) + 1
        key = (digest, seen[digest])
        before = had.get(key, 0)
        found += max(0, begin + before - max(begin, read))
        news[key] = max(before, min(tokens, max(0, cached - begin)))
        begin += tokens
    had.update(news)
    return found


def read_log(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    print(json.dumps(recompute(read_log(sys.argv[1]), sys.argv[2])))
