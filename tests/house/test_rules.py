"""Every rule of specs/ is named by a test, and every rule a test names is in specs/."""

from __future__ import annotations

import pytest

from support.house import ROOT, all_declared, all_named, all_tests, declared_rules, named_rules, not_ours, proofs

REPORTS = (ROOT / "specs" / "reports.md").read_text(encoding="utf-8")
TRAPS = {*(f"T{number}" for number in range(1, 56)), *(f"ACC-{number}" for number in range(1, 20))}


def test_no_rule_is_without_a_test():
    proved = {*all_named(), *not_ours(REPORTS)}
    assert [f"{rule} ({', '.join(pages)})" for rule, pages in all_declared().items() if rule not in proved] == []


def test_what_is_not_ours_has_a_reason_and_no_test():
    reasons = not_ours(REPORTS)
    assert REPORTS.count("not ours: ") == len(reasons), "a row is not read"
    assert [report for report, reason in reasons.items() if len(reason) < 30] == []
    assert sorted(reasons.keys() & all_named().keys()) == []


@pytest.mark.parametrize("kind", ["CB", "TP", "TH", "OV", "TC", "CL", "UN", "IM", "RF"])
def test_each_class_of_reports_is_there(kind: str):
    declared = [rule for rule, pages in all_declared().items() if pages == ["reports.md"]]
    assert [rule for rule in declared if rule.startswith(kind)]


def test_reasons_are_read_from_rows():
    page = "| AB-01 | a fault | not ours: we have no screen |\n| AB-02 | another | RULE-1 |\nAB-03 not ours: no row"
    assert not_ours(page) == {"AB-01": "we have no screen"}


def test_no_test_names_an_unknown_rule():
    declared = all_declared()
    assert [f"{rule} ({', '.join(files)})" for rule, files in all_named().items() if rule not in declared] == []


def test_no_rule_is_declared_twice():
    assert {rule: pages for rule, pages in all_declared().items() if len(pages) > 1} == {}


def test_the_laws_are_there():
    """A check over an empty list would pass: the laws and the properties must be among what is checked."""
    declared = set(all_declared())
    assert {f"LAW-{number}" for number in range(1, 6)} <= declared
    assert {f"PROP-{number}" for number in range(1, 12)} <= declared


def test_every_trap_and_every_property_of_acceptance_has_a_row_whose_tests_name_it():
    """A row without a test, a test that is not there, or tests of which none names the row: none of them may be."""
    rows = proofs((ROOT / "specs" / "traps.md").read_text(encoding="utf-8"))
    assert set(rows) == TRAPS
    tests = all_tests()
    assert {row: [test for test in named if test not in tests] for row, named in rows.items() if named} == {
        row: [] for row in rows
    }
    assert [row for row, named in rows.items() if not any(row in tests[test] for test in named)] == []


def test_rows_and_traps_are_read():
    page = "| T1 | a trap | holds | `test_a`, `test_b` |\n| ACC-2 | `test_no` | holds | by construction: `test_c` |\n"
    assert proofs(page) == {"T1": ["test_a", "test_b"], "ACC-2": ["test_c"]}
    assert declared_rules("| T1 | a trap |\n| T | no |\n| T100 | no |\n| T2x | no |\n") == ["T1"]
    assert named_rules('"""T7, T55 and OAT1; T0 and T100 are none."""\n') == {"T7", "T55"}


def test_declarations_are_headings_bold_items_and_table_rows():
    page = """# PASS-1 heading
text that mentions PASS-9 and - **PASS-10** in passing
- **PASS-2** bold item
* **PASS-3.** star
| PASS-4 | row |
| **PASS-5** | bold row |
- PASS-11 plain item
### SHA-256 is not a rule
```
# PASS-12 in a fence
```
"""
    assert declared_rules(page) == ["PASS-1", "PASS-2", "PASS-3", "PASS-4", "PASS-5"]


def test_names_are_read_from_docstrings_comments_and_marks():
    source = '''"""Proves PASS-1; UTF-8 is no rule."""
import pytest
from support.rules import rule

@pytest.mark.rule("PASS-2", "PASS-3")
def test_a():
    """PASS-4: said here."""
    x = "PASS-5 in a string proves nothing"  # PASS-6
    rule("PASS-7")
'''
    assert named_rules(source) == {f"PASS-{number}" for number in (1, 2, 3, 4, 6, 7)}
