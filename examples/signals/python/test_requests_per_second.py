"""Tests of the signal's function."""
import unittest

import requests_per_second as rps
import weirsignal


def given(*values, **parameters):
    return weirsignal.Given({rps.METRIC: list(enumerate(values))}, {**rps.PARAMETERS, **parameters})


class Value(unittest.TestCase):
    def test_last_value_counts(self):
        for values, parameters, cpus, mem in [
            ((900, 250), {}, 1.5, 768),
            ((100,), {}, 1, 512),
            ((0,), {}, 0, 0),
            ((-5,), {}, 0, 0),
            ((100,), {"headroom": 1}, 0.5, 256),
            ((100,), {"headroom": 1, "requests_per_instance": 30}, 2, 1024),
            ((100,), {"cpus_per_instance": 2, "mem_per_instance": 10}, 4, 20),
        ]:
            with self.subTest(values=values, parameters=parameters):
                case = given(*values, **parameters)
                self.assertEqual(rps.value(case), {"cpus": cpus, "mem": mem})
                self.assertIn("instances", case.explanation)

    def test_no_points_no_opinion(self):
        for case in (given(), weirsignal.Given({"other": [(1, 5.0)]}, rps.PARAMETERS)):
            with self.assertRaises(weirsignal.NoOpinion):
                rps.value(case)

    def test_bad_parameters(self):
        for name in rps.PARAMETERS:
            for setting in (-1.0, 0.0):
                with self.subTest(name=name, setting=setting), self.assertRaises(ValueError):
                    rps.value(given(1, **{name: setting}))


if __name__ == "__main__":
    unittest.main()
