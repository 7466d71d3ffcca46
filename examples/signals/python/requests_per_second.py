#!/usr/bin/env python3
"""A signal in Python. It scales instances with the request rate.

    instances = ceil(last value of requests_per_second * headroom / requests_per_instance)
"""
import math

import weirsignal

METRIC = "requests_per_second"
PARAMETERS = {"headroom": 1.2, "requests_per_instance": 100.0, "cpus_per_instance": 0.5, "mem_per_instance": 256.0}


def value(given):
    p = given.parameters
    for name, setting in p.items():
        if setting <= 0:
            raise ValueError(f"parameter {name}: a number above 0 is needed, not {setting:g}")
    points = given.metrics.get(METRIC)
    if not points:
        raise weirsignal.NoOpinion(f"no points of {METRIC}")
    rate = max(points[-1][1], 0.0)
    instances = math.ceil(rate * p["headroom"] / p["requests_per_instance"])
    given.explain(f"{instances} instances: {rate:g} requests/s * {p['headroom']:g} headroom"
                  f" / {p['requests_per_instance']:g} requests/s per instance")
    return {"cpus": instances * p["cpus_per_instance"], "mem": instances * p["mem_per_instance"]}


if __name__ == "__main__":
    weirsignal.main(value, PARAMETERS)
