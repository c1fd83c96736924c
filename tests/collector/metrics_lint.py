"""Reading metrics as Prometheus does, and what its own linter (`promtool check metrics`) finds fault with."""

import re
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_text

_FOREIGN_UNITS = ("milliseconds", "minutes", "hours", "kilobytes", "megabytes", "percent")
_LABELS_OF_HISTOGRAMS = {"le", "quantile"}


def read(text: str) -> dict[str, Metric]:
    """By name; in either form. Raises ValueError for what cannot be read."""
    parse = of_openmetrics if text.endswith("# EOF\n") else of_text
    return {metric.name: metric for metric in parse(text)}


def faults(metrics: Iterable[Metric]) -> Iterator[str]:
    """What is wrong with names, types, helps and labels of Rollcall's own metrics."""
    for metric in metrics:
        if metric.name.startswith(("process_", "python_")):
            continue
        if not re.fullmatch(r"rollcall_[a-z][a-z0-9_]*", metric.name):
            yield f"{metric.name}: name"
        if not metric.documentation.strip().endswith("."):
            yield f"{metric.name}: help"
        if any(unit in metric.name.split("_") for unit in _FOREIGN_UNITS):
            yield f"{metric.name}: unit"
        if metric.type != "counter" and metric.name.endswith(("_total", "_count", "_sum", "_bucket")):
            yield f"{metric.name}: suffix"
        yield from _of_samples(metric)


def _of_samples(metric: Metric) -> Iterator[str]:
    seen = set()
    for sample in metric.samples:
        if metric.type == "counter" and not sample.name.endswith(("_total", "_created")):
            yield f"{metric.name}: a counter's sample {sample.name}"
        if metric.type != "histogram" and _LABELS_OF_HISTOGRAMS & sample.labels.keys():
            yield f"{metric.name}: label of a histogram"
        key = sample.name, tuple(sorted(sample.labels.items()))
        if key in seen:
            yield f"{metric.name}: {key} twice"
        seen.add(key)


def values(metrics: dict[str, Metric], name: str) -> dict[tuple[str, ...], float]:
    """A metric's samples that are not 0, by the values of their labels in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(each.labels.items())): each.value
        for each in metrics[name].samples
        if each.value
    }
