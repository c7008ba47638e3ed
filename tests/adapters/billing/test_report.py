"""The report: one file, nothing asked for outside it, every bust named."""

import json
import re
from html.parser import HTMLParser

import pytest

from foldlog.adapters.billing.baselines import Raw, compacting_once, doing_nothing
from foldlog.adapters.billing.bill import bill
from foldlog.adapters.billing.figures import context, costs
from foldlog.adapters.billing.profiles import PROFILES
from foldlog.adapters.billing.report import report
from foldlog.domain.errors import OptionError
from support.wire_logs import block, blocks, random_log

EVIL = "</script><img src=https://example.invalid/x>"


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.cells, self.asked, self.scripts = [], [], [], []
        self.open = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.asked += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        self.open = tag

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open in ("td", "th"):
            self.cells.append(data)
        elif self.open == "script":
            self.scripts.append(data)


def arms(window=12_000):
    every = blocks(*[1_000] * 20)
    raw = [Raw(1_700_000_000_000 + 400_000 * k, EVIL, every[: k + 1], 9) for k in range(20)]
    logs = {
        f"once {EVIL}": compacting_once("s", raw, window=window, front=(block("system", 500),)),
        "nothing": doing_nothing("s", raw, window=window, front=(block("system", 500),)),
    }
    return logs, {arm: bill(log, PROFILES["anthropic-5m"]) for arm, log in logs.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    logs, bills = arms()
    report(path, f"A title {EVIL}", bills, logs, 12_000, [f"a note {EVIL}"])
    page = Page()
    text = path.read_text(encoding="utf-8")
    page.feed(text)
    return bills, page, text


def test_it_asks_for_nothing_outside(made):
    """BILL-25: no address in it is loaded, its policy forbids it, and texts of a log are texts."""
    _, page, text = made
    assert page.asked == []
    assert {tag for tag, _ in page.tags} & {"img", "iframe", "link", "object", "embed", "base", "form"} == set()
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert EVIL not in text
    assert "A title &lt;/script&gt;" in text
    assert "a note &lt;/script&gt;" in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_the_charts_are_in_the_file(made):
    """BILL-26: the library itself, and the data of both charts."""
    bills, page, _ = made
    whole = "".join(page.scripts)
    assert len(whole) > 1_000_000
    data = json.loads(re.search(r"const charts=(\{.*\});for\(const id in charts\)", whole).group(1))
    assert {attrs.get("id") for tag, attrs in page.tags if tag == "div"} >= {"context", "costs"} == set(data)
    assert data == json.loads(json.dumps({"context": context(bills, 12_000), "costs": costs(bills)}))


def test_each_bust_is_marked_and_named():
    """BILL-26: at its request and size, with level, cause, tokens and time; refusals and added calls too."""
    _, bills = arms()
    drawn = {one["name"]: one for one in context(bills, 12_000)["data"]}
    once = next(iter(bills))
    got = bills[once]
    assert len(got.busts) >= 5
    marks = next(one for name, one in drawn.items() if name.startswith("once") and "busts" in name)
    assert marks["x"] == [bust.number for bust in got.busts if got.lines[bust.index].kind == "main"]
    shown = dict(zip(marks["x"], marks["text"], strict=True))
    for bust in got.busts:
        if got.lines[bust.index].kind == "main":
            assert f"{bust.level}: {bust.cause}<br>{bust.tokens:,} tokens" in shown[bust.number]
            assert "2023-11-1" in shown[bust.number]
    assert any(f"added calls ({got.added_calls})" in name for name in drawn)
    refused = drawn[f"nothing: refused ({bills['nothing'].refusals})"]
    assert refused["y"] == [500 + 1_000 * n for n in refused["x"]]
    line = drawn["nothing"]
    assert line["y"] == [500 + 1_000 * n for n in line["x"]]


def test_the_cost_ends_at_the_bill():
    """BILL-26: added calls fall on the request they came before."""
    _, bills = arms()
    for drawn, bill_ in zip(costs(bills)["data"][::-1], bills.values(), strict=True):
        assert drawn["y"][-1] == pytest.approx(bill_.cost, abs=0.1)
        assert drawn["y"] == sorted(drawn["y"])
        assert drawn["x"] == sorted(set(drawn["x"]))


def test_the_tables_hold_the_bill(made):
    """BILL-26: every row of every arm, and the totals."""
    bills, page, _ = made
    cells = page.cells
    for bill_ in bills.values():
        for row in bill_.rows:
            places = [i for i in range(len(cells) - 1) if cells[i : i + 2] == [row.level, row.cause]]
            told = [cells[i + 2 : i + 10] for i in places]
            sums = row.sums
            counts = (row.requests, row.busts, sums.read, sums.first, sums.rewritten, sums.uncached, sums.output)
            assert [*(f"{count:,}" for count in counts), f"{sums.cost:,.0f}"] in told
        assert f"{bill_.cost:,.0f}" in cells


def test_any_log_can_be_reported(tmp_path):
    """BILL-25: random logs, no time, no window, nothing at all."""
    for seed in range(3):
        log = random_log(seed)
        report(tmp_path / "r.html", "t", {"a": bill(log, PROFILES["openai"])}, {"a": log}, 0, [])
    report(tmp_path / "r.html", "t", {"a": bill([], PROFILES["openai"])}, {"a": []}, 0)
    assert "<h1>t</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_made_says_why(tmp_path):
    logs, bills = arms()
    with pytest.raises(OptionError, match="cannot be written"):
        report(tmp_path / "none" / "r.html", "t", bills, logs, 0)
    with pytest.raises(OptionError, match="not made from"):
        report(tmp_path / "r.html", "t", bills, {}, 0)
    with pytest.raises(OptionError, match="at least one arm"):
        report(tmp_path / "r.html", "t", {}, {}, 0)
