"""What sessions cost: a simulated prompt cache, one bill for every arm, baselines, a report (``specs/billing.md``)."""
