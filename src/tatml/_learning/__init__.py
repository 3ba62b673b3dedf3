"""From samples and pairs to a metric with its threshold, without estimators."""
