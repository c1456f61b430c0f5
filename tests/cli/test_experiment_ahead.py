"""`circe experiment` on pictures learns what the paper says: CIRCE is ahead of GCM out of domain where GCM cannot see the
dependence, and the yardstick tells dependence from the error of a conditional mean.

Only the Python standard library is needed. CIRCE_BINARY names the command to test; CIRCE_SANITIZED says that it is too
slow for this."""

import os
import unittest

from test_experiment import ExperimentTest

SANITIZED = os.environ.get("CIRCE_SANITIZED", "") != ""

# Large enough to show it: 300 steps of 128 pictures, at a rate that suits so few.
SMALL = """\
title: Small
models:
  - model: dsprites
    dependence: nonlinear
data: {train: 30000, validation: 4096, test: 2048, holdout: 2000}
training: {net: dsprites, steps: 300, batch: 128, rate: 3e-3, decay: 1e-4}
yardstick: {sigma2_x: 0.05, sigma2_y: 0.005, sigma2_z: 0.5, ridge: [1, 10, 100]}
seeds: 2
sweep: true
methods:
  - {name: none, regularizer: none}
  - {name: gcm, regularizer: gcm, gamma: 0.1}
  - {name: circe, regularizer: circe, sigma2_x: 0.05, sigma2_y: 0.005, sigma2_z: 0.5, ridge: [1, 10, 100], gamma: 100}
"""


class AheadTest(ExperimentTest):
    @unittest.skipIf(SANITIZED, "too slow with sanitizers")
    def test_circe_is_ahead_out_of_domain_where_gcm_is_blind(self):
        """Fixed seeds. OOD losses of seeds 1 and 2 were: none .086, .088; GCM .087, .061; CIRCE .031, .045: another
        machine, whose rounding is another seed, stays within the margins."""
        result = self.experiment(SMALL, "-q")
        rows = {r["method"]: r for r in self.results()["summary"]}
        none, gcm, circe = (rows[name]["ood_mse"]["median"] for name in ("none", "gcm", "circe"))
        self.assertLess(circe, 0.8 * gcm, result.stdout)
        self.assertLess(circe, 0.75 * none, result.stdout)
        # in domain it is the other way round, and the yardstick sees why
        self.assertLess(rows["none"]["mse"]["median"], 0.75 * rows["circe"]["mse"]["median"])
        self.assertLess(rows["circe"]["dependence"]["median"], 0.7 * rows["none"]["dependence"]["median"])
        for run in self.results()["runs"]:
            if run["method"] == "none":
                self.assertGreater(run["dependence"], 4 * run["dependence_error"], run)

    @unittest.skipIf(SANITIZED, "too slow with sanitizers")
    def test_the_error_of_the_conditional_mean_is_no_dependence(self):
        """Who was trained OOD depends on Y alone. So does the error of a mean that was learned from 200 points; the
        exchange of Z among pictures of equal Y tells that from dependence."""
        text = SMALL[:SMALL.index("  - {name: none")] + "  - {name: ood, regularizer: none, trained_on: ood}\n"
        self.experiment(text.replace("holdout: 2000", "holdout: 200").replace("steps: 300", "steps: 150"), "-q")
        for run in self.results()["runs"]:
            self.assertGreater(run["dependence_exchanged"], 6 * run["dependence_error"], run)
            self.assertLess(abs(run["dependence"]), 3.5 * run["dependence_error"], run)


if __name__ == "__main__":
    unittest.main()
