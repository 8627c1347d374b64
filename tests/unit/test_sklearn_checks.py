"""scikit-learn's own checks, on vectors; texts, domains and weights are in test_estimator.py."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multidomain.estimator import MultiDomainClassifier


def quick(weighting):
    # The paper's sizes and learning rate are for thousands of documents; the checks have 10 to 300 rows.
    return MultiDomainClassifier(
        "man-nll", hidden=(16,), dropout=0.0, lr=0.03, batch_size=32, max_epochs=15, patience=15, weighting=weighting
    )


def expected_failures(estimator):
    # A weight counts in the mean of its mini-batch, while a repeated row is drawn more often, and at other times.
    why = "mini-batches of weighted rows are other ones than of repeated rows"
    failing = {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in ("dense", "sparse")}
    if estimator.weighting == "counts":
        failing["check_class_weight_classifiers"] = "has negative values, whatever the tag positive_only says"
    return failing


@parametrize_with_checks([quick("raw"), quick("counts")], expected_failed_checks=expected_failures)
def test_check(estimator, check):
    check(estimator)
