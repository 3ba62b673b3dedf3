"""The statistics of verification: limits of error rates, dependent pairs, thresholds for targets.

`tatml.verification` shows what is public. The estimators calibrate their thresholds with these
functions, so nothing here knows an estimator.
"""
