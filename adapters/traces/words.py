"""The vocabulary of generated sessions: stems, sentences and line patterns.

In a pattern, ``{x}`` takes a word of pool ``x`` (``Pools``). Patterns are short on purpose: variety comes from the pools,
which are made anew for every session and shift with every task.
"""

from __future__ import annotations

_STEMS = (
    "acl agent alias anchor array asset audit badge batch bloom border branch bridge broker bucket buffer bundle cache "
    "canvas cargo chunk cipher client clock cluster codec column commit cursor daemon delta digest domain draft drift "
    "edge epoch export fabric facet feed fence fiber field filter flag flow fold frame gate glyph grant graph grid group "
    "guard handle hash header heap hook image index inlet intent invoice item journal kernel label lane latch layer lease "
    "ledger lens level link loader lock loop manifest mapper marker mask matrix merge metric mirror model module mount "
    "nonce notice offset orbit order origin outlet owner packet page panel parcel parser patch path peer phase pipe pixel "
    "plan player plugin point policy pool port probe proxy pulse query queue quota range ratio record region relay report "
    "request resolver result ribbon ring role route row rule sample scale schema scope script seal sector segment sensor "
    "session shard shelf signal slice slot snapshot socket source span spool stage stamp state step stock storage stream "
    "string sweep symbol table tag task tenant thread ticket tile timer token topic trace track tree trigger tuple union "
    "unit upload vault vector vendor view visit volume voucher walker watch wave weight widget window wire worker zone"
)

_VERBS = (
    "apply attach build cancel check claim close collect commit compare compute convert count decode detect drain drop "
    "emit encode ensure evict expand expire export fetch find flush fold format freeze handle import infer insert join "
    "list load lock map mark match merge move notify open parse patch poll prepare prune publish pull push read rebuild "
    "record reduce refresh release render replay report resolve restore retry rotate route save scan schedule seal send "
    "settle skip sort split stage start stop store submit sync trim unlock update validate verify visit walk warm wrap write"
)

_ADJECTIVES = (
    "stale empty missing duplicate partial nested pending expired shared local remote cached frozen open broken unused "
    "early late wrong negative large small lazy eager strict loose public private typed raw signed idle hot cold"
)

STEMS, VERBS, ADJECTIVES = _STEMS.split(), _VERBS.split(), _ADJECTIVES.split()

NAMES = ("Aiko", "Børge", "Chidi", "Dana", "Élodie", "Farid", "Grażyna", "Hana", "İpek", "João", "Kofi", "Lærke")

FOREIGN = (
    "テストは{n}件失敗しました。", "設定ファイルを確認してください。", "缓存未命中（{n} 次）。", "请先运行迁移。", "빌드가 끝났습니다.",
    "Größe über {n} Bytes überschritten", "échec à la ligne {n}", "ошибка в строке {n}", "🚀 deployed {h}", "✅ {n} ok, ❌ {n} failed",
    "👩‍💻 reviewed by {w}", "cafe\u0301 and nai\u0308ve stay decomposed", "مرحبا {n}", "x\u0302 = {n} ± {n}", "see §{n}.{n} of the spec",
    "weird zero\u200bwidth and rtl \u202emark\u202c", "a family: 👨‍👩‍👧‍👦", "§ {n} §",
)

PYTHON = (
    "def {f}({i}: {t}, {i}: int = {n}) -> {t}:", "    {i} = {f}({i}, {i}={n})", "    if {i} is None or {i}.{i} < {n}:",
    "        raise {t}Error(f\"{a} {i} {{{i}!r}} at {n}\")", "    for {i} in {i}.{f}():", "        {i}.append({f}({i}))",
    "    return {t}({i}={i}, {i}={n})", "", "class {t}:", "    \"\"\"{V} the {a} {s} before the {s} is {v}ed.\"\"\"",
    "    {i}: dict[str, {t}] = field(default_factory=dict)", "    async def {f}(self, {i}: {t}) -> None:",
    "        await self.{i}.{f}({i}, timeout={n})", "    # {V} first: the {s} may still be {a}", "    with self.{i}.{f}() as {i}:",
    "        log.debug(\"{s}.{f}\", {i}={i}, {i}={n})", "from .{i} import {t}, {f}", "    assert {i}.{i} == {n}, {i}",
    "    return [{i} for {i} in {i} if {i}.{i} != \"{w}\"]", "@pytest.mark.parametrize(\"{i}\", [{n}, {n}, {n}])",
)

TYPESCRIPT = (
    "export async function {f}({i}: {t}, {i} = {n}): Promise<{t}> {{", "  const {i} = await this.{i}.{f}({i}, {{ {i}: {n} }});",
    "  if (!{i} || {i}.{i} > {n}) {{", "    throw new {t}Error(`{a} {s}: ${{{i}.{i}}}`);", "  }}", "}}", "",
    "export interface {t} {{", "  readonly {i}: {t}[];", "  {i}?: string; // {a} until {v}ed", "import {{ {t}, {f} }} from \"./{i}\";",
    "  return {i}.map(({i}) => ({{ ...{i}, {i}: {f}({i}) }}));", "  private {i} = new Map<string, {t}>();",
    "  // {V} the {s} lazily, the {s} is {a} here", "  switch ({i}.{i}) {{", "    case \"{w}\": return {f}({i}, {n});",
    "  this.{i}.on(\"{w}\", ({i}) => this.{f}({i}));", "  for (const [{i}, {i}] of {i}.entries()) {{",
)

GO = (
    "func ({i} *{t}) {t}{w}({i} string, {i} int) error {{", "\t{i}, err := {i}.{t}({i}, {n})", "\tif err != nil {{",
    "\t\treturn fmt.Errorf(\"{v} {s} %q: %w\", {i}, err)", "\t}}", "}}", "", "type {t} struct {{", "\t{t} map[string]*{t} `json:\"{i}\"`",
    "\t// {V} keeps the {s} {a} until {n} ms passed.", "\tfor _, {i} := range {i}.{t} {{", "\t\t{i} = append({i}, {t}{{{t}: {n}}})",
    "\tdefer {i}.{t}()", "\tcase \"{w}\":", "\t\tlog.Printf(\"{s}: {a} {s} %d\", {n})", "\tif len({i}) > {n} {{",
)

LOGS = (
    "{d} INFO  {s}.{f}: {v}ed {n} {s}s in {n} ms", "{d} DEBUG {s}.{i}: {i}={n} {i}={h}", "{d} WARN  {s}: {a} {s} {h}, will {v}",
    "{d} ERROR {s}.{f}: cannot {v} {s} {h} (code {n})", "  -> {p} ({n} bytes, {n} ms)", "[{n}/{n}] {V} {p}",
    "{d} INFO  http {h} GET /{i}/{n} 200 {n}ms", "npm warn {a} {i}@{n}.{n}.{n}: use {i} instead",
    "   Compiling {i} v{n}.{n}.{n} ({p})", "{h}  {p}  {n}",
)

TESTS = (
    "{p}::{T}::test_{f} PASSED [ {n}%]", "{p}::test_{f}[{i}-{n}] PASSED", "{p}::test_{f}_{a} PASSED", "{p}::{T}::test_{i}_{v} SKIPPED ({a})",
    "{p}::test_{f}_{i} PASSED", "  ok {n} - {f} {v}s the {a} {s}", "{p} .....{n}.. [ {n}%]",
)

TRACES = (
    "  File \"{p}\", line {n}, in {f}", "    {i} = {f}({i}, {i}={n})", "    return self.{i}.{f}({i})", "    await {i}.{f}()",
    "    at {t}.{f} ({p}:{n}:{n})", "    at async {f} ({p}:{n}:{n})", "E       assert {n} == {n}", "E        +  where {n} = {f}({i})",
)

SEARCH = ("{p}:{n}:    {i} = {f}({i})", "{p}:{n}:def {f}({i}: {t}):", "{p}:{n}:# TODO({w}): {v} the {a} {s}", "{p}:{n}:  {i}: {t} = {n}")

LISTING = ("{p}", "-rw-r--r-- 1 dev dev {n} {p}", "drwxr-xr-x {n} dev dev {n} {i}", "{h} {p}")

GIT = (
    "{h} {V} the {a} {s} of {i}", "{h} {i}: {v} {s} before {s}", " {p} | {n} +++++----", "commit {h}{h}{h}{h}", "Author: {N} <dev@example.com>",
    "    {V} {a} {s}s ({i} #{n})",
)

DATA = ("  \"{i}\": {n},", "  \"{i}\": \"{h}\",", "  \"{i}\": {{\"{i}\": {n}, \"{i}\": \"{w}\"}},", "  \"{i}\": [{n}, {n}, {n}],", "  \"{i}\": null,")

DOCS = (
    "## {V} the {s}", "", "The {s} {v}s every {a} {s} once; `{f}` returns {n} when the {s} is {a}.", "- `{i}` ({t}): {a}, default {n}",
    "| `{i}` | {n} | {a} {s} |", "Run `{i} {v} --{i} {n}` after each change of the {s}.", "> {N}: why is the {s} {a} here?",
    "A {a} {s} must never {v} the {s} of another {s}.", "See [{i}]({p}) and §{n} of the {s} notes.",
)

REASONING = (
    "The {s} is {a}, so `{f}` cannot {v} it before the {s} has been {v}ed.", "Let me look at `{p}` next, line {n} onwards.",
    "If {i} stays {a}, the test with {n} {s}s will fail again.", "I should {v} the {s} in one place instead of {n}.",
    "The person asked about the {a} {s}; the real cause seems to be `{i}.{f}`.", "First {v}, then {v}, otherwise the {s} goes {a}.",
    "Hmm, {n} is not {n}: something between `{f}` and `{f}` counts the {s} twice.", "That {s} has {n} callers, most of them in `{p}`.",
    "I had assumed that `{t}` {v}s the {s}. It does not, it only {v}s it when {i} is {a}.", "Safer: keep `{i}` and {v} the {a} one later.",
)

SAYS = (
    "I'll {v} the {a} {s} in `{p}` first.", "`{f}` returns the {a} {s}; I'm going to {v} it there.", "Now the {s}: `{i}` is still {n}.",
    "The {s} tests pass. Next I {v} `{t}`.", "Found it: `{f}` at line {n} never {v}s the {s}.", "Let me check who else {v}s `{i}`.",
    "That failed at {n} because the {s} was {a}.", "I'll add a test for the {a} {s} before I change `{f}`.", "Two of {n} cases left, both about the {s}.",
    "Reading `{p}` to see how `{i}` is {v}ed.",
)

SUMMARY = (
    "- `{p}`: {f} now {v}s the {s} ({n} lines)", "- {V} `{i}` only when the {s} is {a}", "- new test `test_{f}_{a}` covers {n} {s}s",
    "- left alone: the {a} {s} in `{i}`, it needs {N}'s answer", "- commit {h}: {V} {a} {s}", "- `{t}` keeps its {s}; callers: {n}",
)

ASKS = (
    "The {s} goes {a} when I {v} more than {n} {s}s. Please find out why and fix it.", "can you {v} the {s} in {p}? it is {a} since {h}",
    "Please add a `{i}` option to `{f}` so that {a} {s}s are {v}ed.", "why does {f} {v} the {s} twice??", "ok, and now the same for {i}",
    "test_{f} fails on CI with {n}, not here. Have a look.", "hm, I'd rather keep `{t}` {a}. Can we {v} in {i} instead?",
    "Commit that, then {v} the {s} docs.", "{N} says the {s} must not be {a} after {n} ms; make it so", "great, continue with the {a} {s}",
    "wait, did you {v} {p} too?", "Refactor {i}: it has {n} lines and does {v}, {v} and {v}.",
)
