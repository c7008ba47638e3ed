"""Each host without foldlog, on a script longer than its model's window: the yardstick."""

from __future__ import annotations

from e2e import measure


def test_the_host_alone_ends_or_compacts(alone):
    said = [(ran.code, alone.host.said(ran)[:60]) for ran in alone.ran]
    records = alone.records
    assert any(each.kind == "summary" or each.failure == "overflow" for each in records), said
    print(alone.host.NAME, said, measure.measured(measure.main(records), records))
