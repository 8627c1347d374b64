"""scikit-learn's own checks, on vectors, all of them; texts and domains are in test_estimator.py."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multidomain.estimator import MultiDomainClassifier


def quick(weighting):
    # The paper's sizes and learning rate are for thousands of documents; the checks have 10 to 300 rows.
    return MultiDomainClassifier(
        "man-nll", hidden=(16,), dropout=0.0, lr=0.03, batch_size=32, max_epochs=15, patience=15, weighting=weighting
    )


@parametrize_with_checks([quick("raw"), quick("counts")])
def test_check(estimator, check):
    check(estimator)
