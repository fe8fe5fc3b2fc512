"""Finding and merging bullets that teach the same."""

from ace.playbook.duplicates.find import ThresholdFit, calibrate, labelled_pairs

__all__ = ["ThresholdFit", "calibrate", "labelled_pairs"]
