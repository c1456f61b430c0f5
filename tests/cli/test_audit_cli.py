"""`circe audit` on classes and groups, against numbers that are computed here: every rate, gap and metric, on tables with
few and many positives, rare groups, ties, and codes in the place of words.

Only the Python standard library is needed. CIRCE_BINARY names the command to test."""

import bisect
import json
import math
import os
import pathlib
import random
import unittest

from cli_support import CliTest

METRICS = ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "negative_predictive_value", "accuracy", "auc", "mean_outcome",
           "mean_prediction", "mean_error", "root_mean_square_error")


def people(n, positives, seed, groups=("a", "b"), shares=None):
    """A score that leans towards the second group at equal outcome, rounded so that there are ties."""
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        g = draw.choices(range(len(groups)), shares)[0]
        y = int(draw.random() < positives)
        score = 0.45 + 0.25 * y - 0.2 * (1 - y) + 0.12 * g + 0.18 * draw.gauss(0, 1)
        rows.append({"y": y, "score": round(min(1, max(0, score)), 2), "group": groups[g], "code": g,
                     "word": "pass" if y else "fail", "said": "pass" if score >= 0.5 else "fail"})
    return rows


def mean(values):
    return sum(values) / len(values) if values else math.nan


def auc(rows, prediction):
    """The share of pairs of a positive and a negative in which the positive is ahead; ties count half."""
    negatives = sorted(r[prediction] for r in rows if not r["y"])
    ahead = [bisect.bisect_left(negatives, r[prediction]) + bisect.bisect_right(negatives, r[prediction]) for r in rows if r["y"]]
    return mean(ahead) / 2 / len(negatives) if negatives else math.nan


def metrics(rows, prediction="score", threshold=0.5):
    """As scikit-learn and fairlearn define them."""
    said = [r[prediction] >= threshold for r in rows]
    yes = [s for s, r in zip(said, rows) if r["y"]]
    no = [s for s, r in zip(said, rows) if not r["y"]]
    error = [r[prediction] - r["y"] for r in rows]
    return {"selection_rate": mean(said), "true_positive_rate": mean(yes), "false_positive_rate": mean(no),
            "precision": mean([r["y"] for s, r in zip(said, rows) if s]),
            "negative_predictive_value": mean([1 - r["y"] for s, r in zip(said, rows) if not s]),
            "accuracy": mean([s == bool(r["y"]) for s, r in zip(said, rows)]), "auc": auc(rows, prediction),
            "mean_outcome": mean([r["y"] for r in rows]), "mean_prediction": mean([r[prediction] for r in rows]),
            "mean_error": mean(error), "root_mean_square_error": math.sqrt(mean([e * e for e in error]))}


def gap(rows, name, attribute, smallest=50):
    groups = {}
    for r in rows:
        groups.setdefault(r[attribute], []).append(r)
    values = {str(g): metrics(members)[name] for g, members in groups.items() if len(members) >= smallest}
    high, low = max(values, key=values.get), min(values, key=values.get)
    return values[high] - values[low], high, low


class AuditTest(CliTest):
    drawn = False  # whether gnuplot draws the figures, which takes half the time of a small audit

    def run_circe(self, *arguments, **options):
        if not self.drawn:
            options.setdefault("env", {**os.environ, "PATH": "/nonexistent"})
        return super().run_circe(*arguments, **options)

    def write_people(self, rows):
        self.write("people.csv", "\n".join([",".join(rows[0])] + [",".join(map(str, r.values())) for r in rows]) + "\n")

    def audit(self, rows, prediction="score", target="y", sensitive="group", *options):
        self.write_people(rows)
        return self.as_json("audit", "people.csv", "--prediction", prediction, "--target", target, "--sensitive",
                            sensitive, "--calibrate", "0", "-o", "report", *options)

    def gaps(self, finding):
        return {g["of"]: g for g in finding["gaps"]}


class ClassTest(AuditTest):
    def check_rates(self, rows, result, attribute):
        gaps = self.gaps(next(f for f in result["findings"] if f["attribute"] == attribute))
        for key in ("true_positive_rate", "false_positive_rate", "selection_rate", "precision"):
            words = key.replace("_", " ")
            value, high, low = gap(rows, key, attribute)
            self.assertAlmostEqual(gaps[words]["gap"], value, 12)
            self.assertEqual((gaps[words]["high"], gaps[words]["low"]), (high, low))
            self.assertTrue(gaps[words]["lower"] <= value <= gaps[words]["upper"])

    def test_classes_are_strata_whatever_their_share(self):
        for share in (0.03, 0.11, 0.5, 0.89, 0.97):
            rows = people(1500, share, 5)
            result = self.audit(rows, sensitive="group,code")
            self.assertEqual((result["outcome"], result["positive"]), ("binary", "1"))
            for attribute in ("group", "code"):
                self.check_rates(rows, result, attribute)

    def test_groups_whatever_their_share(self):
        """An attribute of 0 and 1 with 93 % ones has two groups, and a gap."""
        rows = people(3000, 0.4, 6, shares=(0.07, 0.93))
        result = self.audit(rows, sensitive="code")
        groups = result["findings"][0]["groups"]
        self.assertEqual(groups["labels"], ["0", "1"])
        self.assertEqual(groups["rows"], [sum(r["code"] == g for r in rows) for g in (0, 1)])
        self.check_rates(rows, result, "code")

    def test_mean_prediction(self):
        """Between the groups, at each outcome, by the rows of the outcome."""
        rows = people(2000, 0.9, 7)
        total = 0
        for y in (0, 1):
            of = [r for r in rows if r["y"] == y]
            means = [mean([r["score"] for r in of if r["group"] == g]) for g in "ab"]
            total += len(of) / len(rows) * abs(means[0] - means[1])
        self.assertAlmostEqual(self.gaps(self.audit(rows)["findings"][0])["mean prediction"]["gap"], total, 12)

    def test_words_and_numbers_agree(self):
        rows = people(1500, 0.85, 8)
        numbers = self.audit(rows, sensitive="code")["findings"][0]
        words = self.audit(rows, "score", "word", "group")["findings"][0]
        for one, other in zip(numbers["gaps"], words["gaps"]):
            self.assertEqual(one["gap"], other["gap"])
        self.assertAlmostEqual(numbers["p_value"], words["p_value"], 9)

    def test_few_numbers_are_classes(self):
        draw = random.Random(9)
        rows = [{"y": 2 * draw.choices(range(4), (1, 2, 3, 30))[0], "z": draw.gauss(0, 1)} for _ in range(600)]
        for r in rows:
            r["p"] = r["y"] + 0.5 * r["z"] + draw.gauss(0, 1)
        result = self.audit(rows, "p", "y", "z")
        self.assertEqual(result["outcome"], "classes")
        column = next(c for c in result["columns"] if c["column"] == "y")
        self.assertEqual((column["read_as"], column["categories"], column["because"]),
                         ("categories", 4, "it has few different values"))
        error = mean([r["p"] - r["y"] for r in rows])
        self.assertAlmostEqual(result["quality"][0]["mean_error"]["value"], error, 9)
        for options in (("--numbers", "y"), ("--few-values", "3"), ("--few-values", "0")):
            self.assertEqual(self.audit(rows, "p", "y", "z", *options)["outcome"], "numbers", options)
        self.refuse(2, ["--numbers", "'yy'", "did you mean 'y'"], "audit", "people.csv", "--prediction", "p", "--target",
                    "y", "--sensitive", "z", "--numbers", "yy", "-o", "report")

    def test_few_numbers_of_an_attribute(self):
        rows = people(2000, 0.5, 10, groups=(0, 3, 7), shares=(1, 2, 40))
        self.assertEqual(self.audit(rows)["findings"][0]["groups"]["labels"], ["0", "3", "7"])
        numbers = self.audit(rows, "score", "y", "group", "--numbers", "group")["findings"][0]
        self.assertNotEqual(numbers["groups"]["labels"], ["0", "3", "7"])

    def test_ties_do_not_swallow_a_group(self):
        """93 % of the rows have the largest value of a column of many."""
        rows = people(3000, 0.5, 11)
        draw = random.Random(12)
        for r in rows:
            r["z"] = 9 if draw.random() < 0.93 else round(draw.random(), 6)
        gaps = self.audit(rows, "score", "y", "z")["findings"][0]["gaps"]
        self.assertEqual({g["groups"] for g in gaps if g["of"] == "true positive rate"} & {2}, {2})

    def test_numbers_keep_two_digits(self):
        """No share is rounded to 0 %."""
        for seed in (1, 2):
            finding = self.audit(people(1500, 0.5, seed), "score", "y", "code")["findings"][0]
            self.assertNotIn(" 0 %", finding["verdict"])
        rows = people(2500, 0.5, 4)
        draw = random.Random(13)
        for r in rows:
            r["noise"] = draw.choice("uvw")
        finding = self.audit(rows, "score", "y", "noise")["findings"][0]
        self.assertIn("compatible with an effect of at most", finding["verdict"])
        self.assertNotIn(" 0 %", finding["verdict"])


class MetricTest(AuditTest):
    def test_every_metric_of_every_group(self):
        rows = people(600, 0.3, 20, groups=("a", "b", "c"), shares=(5, 4, 2))
        result = self.audit(rows)
        found = result["findings"][0]["groups"]
        for g, label in enumerate(found["labels"]):
            expected = metrics([r for r in rows if r["group"] == label])
            for name in METRICS:
                one = found["metrics"][name]
                self.assertAlmostEqual(one["value"][g], expected[name], 10, (label, name))
                self.assertTrue(one["lower"][g] <= expected[name] <= one["upper"][g], (label, name))
        for name, value in metrics(rows).items():
            self.assertAlmostEqual(result["quality"][0][name]["value"], value, 10, name)

    def test_intervals(self):
        """That of a rate is about 1.96 standard errors to both sides."""
        rows = people(3000, 0.6, 21)
        found = self.audit(rows)["findings"][0]
        for g, label in enumerate(found["groups"]["labels"]):
            of = [r for r in rows if r["group"] == label and r["y"]]
            one = found["groups"]["metrics"]["true_positive_rate"]
            half = 1.96 * math.sqrt(one["value"][g] * (1 - one["value"][g]) / len(of))
            # 1,000 draws: an end is known to about 8 % of the standard error, and rates are a little skew
            self.assertAlmostEqual((one["upper"][g] - one["lower"][g]) / 2, half, delta=0.15 * half)
        rates = [found["groups"]["metrics"]["false_positive_rate"]["value"][g] for g in (0, 1)]
        sizes = [sum(r["group"] == label and not r["y"] for r in rows) for label in found["groups"]["labels"]]
        half = 1.96 * math.sqrt(sum(p * (1 - p) / n for p, n in zip(rates, sizes)))
        gap = self.gaps(found)["false positive rate"]
        self.assertAlmostEqual((gap["upper"] - gap["lower"]) / 2, half, delta=0.15 * half)

    def test_regression(self):
        draw = random.Random(22)
        rows = []
        for _ in range(800):
            y, g = 100 + draw.gauss(0, 3), draw.choice("uv")
            rows.append({"y": y, "p": 0.8 * y + 20 + (g == "u") + draw.gauss(0, 1), "g": g})
        result = self.audit(rows, "p", "y", "g")
        found = result["findings"][0]["groups"]
        for g, label in enumerate(found["labels"]):
            of = [r for r in rows if r["g"] == label]
            error = [r["p"] - r["y"] for r in of]
            centre = mean([r["y"] for r in of])
            r2 = 1 - sum(e * e for e in error) / sum((r["y"] - centre) ** 2 for r in of)
            self.assertAlmostEqual(found["metrics"]["r2"]["value"][g], r2, 9)
            self.assertAlmostEqual(found["metrics"]["mean_error"]["value"][g], mean(error), 9)
            self.assertNotIn("auc", found["metrics"])

    def test_small_groups_are_shown_but_set_no_gap(self):
        rows = people(2000, 0.5, 23, groups=("a", "b", "rare"), shares=(50, 49, 1))
        for r in rows:
            if r["group"] == "rare":
                r["score"] = 0.99  # a gap of its own, of a few rows
        result = self.audit(rows)
        found = result["findings"][0]
        at = found["groups"]["labels"].index("rare")
        self.assertFalse(found["groups"]["compared"][at])
        self.assertEqual(found["groups"]["metrics"]["selection_rate"]["value"][at], 1)
        for g in found["gaps"]:
            self.assertEqual(g["groups"], 2)
            self.assertNotIn("rare", (g["high"], g["low"]))
        self.assertTrue(any("fewer than 50 rows" in w for w in result["warnings"]), result["warnings"])
        every = self.audit(rows, "score", "y", "group", "--smallest-group", "1")["findings"][0]
        self.assertEqual({g["high"] for g in every["gaps"] if g["of"] != "precision"}, {"rare"})

    def test_scores_beyond_probabilities(self):
        """A score of 1 to 10, or of 0 to 100, has no error; its threshold is for the user to say."""
        for least, most, threshold, said in (1, 10, "6", "every prediction 'score' is at least"), (0, 100, "50", "not a probability"):
            rows = people(800, 0.5, 24)
            for r in rows:
                r["score"] = least + round((most - least) * r["score"])
            result = self.audit(rows)
            self.assertNotIn("mean_error", result["findings"][0]["groups"]["metrics"])
            self.assertEqual([said in w and "--threshold" in w for w in result["warnings"]], [True], result["warnings"])
            self.assertEqual(self.audit(rows, "score", "y", "group", "--threshold", threshold)["warnings"], [])

    def test_figures_stay_within_the_values(self):
        """A mean of zeros and ones is between them, and so is its interval, in a group of 12 rows too."""
        rows = people(900, 0.5, 27, groups=("a", "b", "few"), shares=(40, 40, 1))
        for r in rows:
            r["said"] = int(r["score"] >= 0.5)
        self.audit(rows, "said")
        lines = [line.split() for line in (self.path / "report" / "1-place.dat").read_text().splitlines()]
        points = [[float(x) for x in line[1:]] for line in lines if line and line[0] != "#"]
        self.assertEqual(len(points), 6)
        for value, low, high in points:
            self.assertTrue(0 <= low <= value <= high <= 1, (value, low, high))
        self.assertTrue(any(high == 1 or low == 0 for _, low, high in points))

    def test_columns_of_the_terminal(self):
        """They stand below their heads where names have letters beyond ASCII."""
        self.write("named.csv", "".join(["score,y,größe\n"] + ["%s,%s,%s\n" % (r["score"], r["y"], r["group"]) for r in people(300, 0.5, 28)]))
        text = self.succeed("audit", "named.csv", "--prediction", "score", "--target", "y", "--sensitive", "größe", "--calibrate", "0",
                            "-o", "report").stdout.splitlines()
        head = next(k for k, line in enumerate(text) if line.startswith("  prediction"))
        self.assertTrue(text[head + 1][text[head].index("trust"):].startswith(("good", "doubtful", "poor")), text[head:head + 2])

    def test_lines_begin_with_words(self):
        """A percent sign stays with its number."""
        rows = [{"p": r["score"], "y": r["y"], "group": r["group"]} for r in people(900, 0.5, 28)]
        self.write_people(rows)
        text = self.succeed("audit", "people.csv", "--prediction", "p", "--target", "y", "--sensitive", "group", "--notion",
                            "independence", "--calibrate", "0", "-o", "report").stdout
        self.assertNotRegex(text, r"(?m)^%")
        for label in "ab":
            expected = metrics([r | {"score": r["p"]} for r in rows if r["group"] == label])
            line = next(line.split() for line in text.splitlines() if line.startswith("  %s  " % label))
            self.assertEqual([line[0], int(line[1])], [label, sum(r["group"] == label for r in rows)])
            for shown, name in zip(line[2:], ("selection_rate", "true_positive_rate", "false_positive_rate", "precision"), strict=True):
                self.assertAlmostEqual(float(shown), expected[name], delta=0.0005)

    def test_reversed_predictor(self):
        """A score of what is not the positive word is worth a question."""
        rows = people(900, 0.5, 29)
        self.assertEqual(self.audit(rows, "score", "word")["warnings"], [])
        found = self.audit(rows, "score", "word", "group", "--positive", "fail")["warnings"]
        self.assertEqual(["is --positive right?" in w for w in found], [True], found)

    def test_useless_predictor(self):
        rows = people(1500, 0.5, 25)
        draw = random.Random(26)
        for r in rows:
            r["guess"] = round(draw.random(), 3)
        self.audit(rows, "score,guess")
        page = (self.path / "report" / "report.html").read_text()
        self.assertIn("<code>guess</code> does not order the outcomes better than chance", page)
        self.assertNotIn("<code>score</code> does not order", page)


class LabelTest(AuditTest):
    """Predictions that are classes themselves, and predictions that are the same for all."""

    def test_numbers_of_the_target_are_labels(self):
        """1 and 2, -1 and 1: what the target has is a class, not a score."""
        rows = people(900, 0.9, 70)
        for r in rows:
            r["plain"] = int(r["score"] >= 0.5)
            r["said"] = "pass" if r["plain"] else "fail"
            r.update(y12=1 + r["y"], said12=1 + r["plain"], sign=2 * r["y"] - 1, said_sign=2 * r["plain"] - 1)
        expected = self.audit(rows, "plain", "y")
        for prediction, target in (("said12", "y12"), ("said_sign", "sign"), ("said", "word")):
            found = self.audit(rows, prediction, target)
            self.assertEqual(found["findings"][0]["groups"]["metrics"], expected["findings"][0]["groups"]["metrics"])
            self.assertEqual([g["gap"] for g in found["findings"][0]["gaps"]], [g["gap"] for g in expected["findings"][0]["gaps"]])
            self.assertEqual(found["warnings"], [])
        page = (self.path / "report" / "report.html").read_text()
        self.assertIn("the share whose prediction is pass.", page)
        self.assertNotIn("at least 0.5", page)
        other = self.audit(rows, "plain", "y", "group", "--positive", "0")
        self.assertAlmostEqual(other["quality"][0]["accuracy"]["value"], expected["quality"][0]["accuracy"]["value"], 12)
        self.assertTrue(any("0 counts as positive" in w for w in other["warnings"]), other["warnings"])

    def test_true_and_false(self):
        """Words of a file stay as written; they name 1 and 0 where the other column has numbers."""
        rows = people(400, 0.5, 75)
        for r in rows:
            r["truth"], r["named"] = bool(r["y"]), str(r["score"] >= 0.5).lower()
            r["member"] = "TRUE" if r["code"] else "FALSE"
        expected = metrics([{"y": r["y"], "score": float(r["score"] >= 0.5)} for r in rows])
        for target, positive in (("truth", "True"), ("y", "1")):
            result = self.audit(rows, "named", target, "member")
            self.assertEqual(result["positive"], positive)
            self.assertEqual(sorted(result["findings"][0]["groups"]["labels"]), ["FALSE", "TRUE"])
            for name in ("true_positive_rate", "false_positive_rate", "accuracy"):
                self.assertAlmostEqual(result["quality"][0][name]["value"], expected[name], 12)

    def test_labels_need_no_threshold(self):
        """0 lies between -1 and 1, and 1.5 between 1 and 2: labels are what they say whatever the threshold of scores."""
        rows = people(900, 0.5, 72)
        for r in rows:
            r["plain"] = int(r["score"] >= 0.5)
            r["said"] = "pass" if r["plain"] else "fail"
            r.update(y12=1 + r["y"], said12=1 + r["plain"], sign=2 * r["y"] - 1, said_sign=2 * r["plain"] - 1)
            r["margin"] = 2 * r["score"] - 1
        expected = self.audit(rows, "plain", "y")["findings"][0]
        for prediction, target, threshold in (("said12", "y12", "1.5"), ("said_sign", "sign", "0"), ("said", "word", "0")):
            result = self.audit(rows, prediction, target, "group", "--threshold", threshold)
            found = result["findings"][0]
            self.assertEqual(found["groups"]["metrics"], expected["groups"]["metrics"])
            self.assertEqual([g["gap"] for g in found["gaps"]], [g["gap"] for g in expected["gaps"]])
            self.assertEqual(len(result["warnings"]), 1)
            self.assertIn("--threshold was ignored", result["warnings"][0])
        both = self.audit(rows, "margin,said_sign", "sign", "group", "--threshold", "0")["quality"]
        self.assertEqual(both[0]["accuracy"], both[1]["accuracy"])

    def test_constant(self):
        """All are said to pass: no dependence, no gap, no quality; given it, the outcome depends as it does anyway."""
        rows = people(900, 0.9, 71)
        for r in rows:
            r["all"] = 1
            r["y"] = int(r["y"] and not (r["code"] and round(100 * r["score"]) % 2))
        result = self.audit(rows, "all,score", "y", "group", "--notion", "all", "--fail-if", "kpc>0.9")
        found = {f["notion"]: f for f in result["findings"] if f["prediction"] == "all"}
        for notion in ("separation", "independence"):
            self.assertEqual((found[notion]["decision"], found[notion]["p_value"], found[notion]["tests"]), ("no dependence found", 1, []))
            self.assertIn("the same in every row", found[notion]["verdict"])
            self.assertEqual({g["gap"] for g in found[notion]["gaps"]}, {0})
        self.assertEqual(found["sufficiency"]["decision"], "depends")
        means = [mean([r["y"] for r in rows if r["group"] == g]) for g in "ab"]
        self.assertAlmostEqual(self.gaps(found["sufficiency"])["calibration"]["gap"], abs(means[0] - means[1]), 12)
        self.assertEqual(result["quality"][0]["auc"]["value"], 0.5)
        self.assertIn("<code>all</code> does not order the outcomes", (self.path / "report" / "report.html").read_text())

    def test_classes_in_words(self):
        """Three classes and predicted ones: the accuracy of every group, and gaps in the share of every class."""
        self.drawn = True
        draw = random.Random(72)
        names, rows = ("low", "mid", "high"), []
        for _ in range(1200):
            g, y = draw.choice("ab"), draw.choice(names)
            said = y if draw.random() < 0.6 else draw.choice(names)
            rows.append({"y": y, "said": "high" if g == "b" and draw.random() < 0.2 else said, "group": g})
        result = self.audit(rows, "said", "y", "group", "--notion", "all")
        separation, independence, sufficiency = result["findings"]
        for g, label in enumerate(separation["groups"]["labels"]):
            value = mean([r["y"] == r["said"] for r in rows if r["group"] == label])
            self.assertAlmostEqual(separation["groups"]["metrics"]["accuracy"]["value"][g], value, 12)
        for finding, x, level in ((separation, "said", "y"), (independence, "said", None), (sufficiency, "y", "said")):
            self.assertEqual(finding["decision"], "depends", finding["notion"])
            self.assertEqual({g["class"] for g in finding["gaps"]}, set(names))
            for gap in finding["gaps"]:
                expected = adjusted_gap(rows, lambda r: r[x] == gap["class"], level=lambda r: r[level] if level else 0)
                self.assertAlmostEqual(gap["gap"], expected, 10)
                self.assertTrue(gap["lower"] <= expected <= gap["upper"])
        self.assertIn("The share of high differs", separation["verdict"])
        self.assertTrue((self.path / "report" / "1-shares-1-sufficiency.svg").is_file())

    def test_refused(self):
        rows = people(200, 0.5, 73)
        for r in rows:
            r.update(other="up" if r["y"] else "down", number=r["score"] * 7 + r["code"] * 0.1)
        self.audit(rows)
        refuse = lambda words, prediction, target: self.refuse(2, words, "audit", "people.csv", "--prediction", prediction, "--target",
                                                               target, "--sensitive", "group", "-o", "report")
        refuse(["'other' contains 'up'", "which is not a value of the target 'word'", "'fail'"], "other", "word")
        refuse(["'said' is text, but the target 'number' is numbers"], "said", "number")

    def test_left_out_of_a_rate(self):
        """A large group with four positive rows sets no gap in the true positive rate unless small groups may."""
        rows = people(900, 0.5, 74, groups=("a", "b", "c"), shares=(5, 4, 2))
        positive = [r for r in rows if r["group"] == "c" and r["y"]]
        rows = [r for r in rows if r not in positive[4:]]
        for r in rows:
            if r["group"] == "c" and r["y"]:
                r["score"] = 0
        result = self.audit(rows)
        self.assertNotIn("c", (self.gaps(result["findings"][0])["true positive rate"][end] for end in ("high", "low")))
        self.assertTrue(any("leaves out c: fewer than 5 such rows" in w for w in result["warnings"]), result["warnings"])
        every = self.audit(rows, "score", "y", "group", "--smallest-group", "1")
        self.assertAlmostEqual(self.gaps(every["findings"][0])["true positive rate"]["gap"],
                               gap(rows, "true_positive_rate", "group", 1)[0], 12)


class JointTest(AuditTest):
    def test_joint(self):
        """Every pair that occurs is a group; the columns alone can be audited beside it."""
        rows = people(2000, 0.5, 50, groups=("a", "b"))
        draw = random.Random(51)
        for r in rows:
            r["sex"] = draw.randrange(2) if r["group"] == "a" else 1
            r["both"] = "%s/%d" % (r["group"], r["sex"])
        joint, alone = self.audit(rows, sensitive="group+sex,sex")["findings"]
        self.assertEqual((joint["attribute"], alone["attribute"]), ("group+sex", "sex"))
        self.assertEqual(sorted(joint["groups"]["labels"]), ["a & 0", "a & 1", "b & 1"])
        one = self.audit(rows, sensitive="both")["findings"][0]
        for g, h in zip(joint["gaps"], one["gaps"]):
            self.assertAlmostEqual(g["gap"], h["gap"], 12)
            self.assertEqual((g["high"].replace(" & ", "/"), g["low"].replace(" & ", "/")), (h["high"], h["low"]))

    def test_refused(self):
        rows = people(300, 0.5, 52)
        for r in rows:
            r["a+b"] = r["code"]
        self.audit(rows, sensitive="a+b")  # a column of this name
        refuse = lambda words, name: self.refuse(2, words, "audit", "people.csv", "--prediction", "score", "--target", "y",
                                                 "--sensitive", name, "-o", "report")
        refuse(["no column 'gruop'", "did you mean 'group'"], "gruop+code")
        refuse(["'y' is the target"], "group+y")
        refuse(["'group+'", "no column name on one side"], "group+")
        refuse(["'+group'", "no column name on one side"], "+group")
        refuse(["'group+group' names 'group' twice"], "group+group")
        draw = random.Random(53)
        for r in rows:
            r["age"] = draw.gauss(0, 1)
        self.audit(rows)
        refuse(["joins categories", "'age' is numbers"], "group+age")
        refuse(["joins categories", "is numbers"], "age+group")


def adjusted_gap(rows, value, attribute="group", level=lambda r: 0, cell=lambda r: 0, least=5):
    """Levels averaged by their rows; in each, the pair of groups that differs most over the cells where both are."""
    total = weight = 0
    for one in sorted({level(r) for r in rows}):
        here = [r for r in rows if level(r) == one]
        blocks = {}
        for r in here:
            blocks.setdefault(cell(r), {}).setdefault(r[attribute], []).append(value(r))
        widest = None
        groups = sorted({r[attribute] for r in here})
        for g in groups:
            for h in groups:
                both = [b for b in blocks.values() if len(b.get(g, ())) >= least and len(b.get(h, ())) >= least]
                if g == h or not both:
                    continue
                sizes = [sum(map(len, b.values())) for b in both]
                difference = sum(n * (mean(b[g]) - mean(b[h])) for n, b in zip(sizes, both)) / sum(sizes)
                widest = difference if widest is None else max(widest, difference)
        if widest is not None:
            total += len(here) * widest
            weight += len(here)
    return total / weight


class DeterminedTest(AuditTest):
    """An attribute that follows from the outcome: nothing can be found, and the report would praise the prediction."""

    def warnings(self, sensitive, *options):
        rows = people(300, 0.4, 3)
        for i, r in enumerate(rows):
            r.update(copy=r["y"], finer="%d%d" % (r["y"], i % 2), coin=i % 2, other=["x", "y"][i * i % 7 % 2])
        return [text for text in self.audit(rows, "score", "y", sensitive, *options)["warnings"] if "in every row" in text]

    def test_the_target_determines_the_attribute(self):
        for sensitive in ("copy", "word", "copy+word"):
            (text,) = self.warnings(sensitive)
            self.assertIn(f"the target determines the attribute '{sensitive}' in every row", text)
        (text,) = self.warnings("finer", "--given", "coin", "--categories", "finer")
        self.assertIn("the target and --given determine the attribute 'finer'", text)
        (text,) = self.warnings("other,coin", "--given", "copy,finer", "--notion", "independence", "--categories", "finer")
        self.assertIn("--given determines the attribute 'coin'", text)

    def test_other_attributes(self):
        for sensitive, options in (("group,finer,coin", ()), ("copy", ("--notion", "independence")),
                                   ("copy", ("--notion", "sufficiency")), ("group+word", ())):
            self.assertEqual(self.warnings(sensitive, *options), [])


class NotionTest(AuditTest):
    def decisions(self, rows, *options):
        found = self.audit(rows, "score", "y", "group", "--notion", "all", *options)
        self.assertEqual(found["notions"], ["separation", "independence", "sufficiency"])
        return {f["notion"]: f["decision"] for f in found["findings"]}

    def world(self, n, seed, make):
        draw = random.Random(seed)
        rows = []
        for _ in range(n):
            g = draw.choice("ab")
            y, score = make(draw, g == "b")
            rows.append({"y": int(y), "score": round(score, 4), "group": g})
        return rows

    def test_each_notion_holds_where_it_holds(self):
        """Where outcomes differ between groups, a prediction can satisfy one notion and break the others."""
        def separated(draw, b):
            y = draw.random() < 0.3 + 0.3 * b
            return y, 0.3 + 0.3 * y + 0.2 * draw.gauss(0, 1)

        def independent(draw, b):
            score = draw.random()
            return draw.random() < 0.1 + 0.4 * score + 0.45 * b, score

        def sufficient(draw, b):
            score = min(1, max(0, 0.4 + 0.2 * b + 0.2 * draw.gauss(0, 1)))
            return draw.random() < score, score

        for name, make in (("separation", separated), ("independence", independent), ("sufficiency", sufficient)):
            for seed in (60, 61):
                found = self.decisions(self.world(1200, seed, make))
                self.assertEqual(found, {k: "no dependence found" if k == name else "depends" for k in found}, (name, seed))

    def test_gaps_of_every_notion(self):
        """3 % to 97 % positives, a rare group, a score of few values."""
        for positives in (0.03, 0.5, 0.97):
            rows = people(2500, positives, 62, groups=("a", "b", "rare"), shares=(30, 20, 0.3))
            for r in rows:
                r["score"] = round(5 * r["score"]) / 5
            compared = [r for r in rows if r["group"] != "rare"]
            separation, independence, sufficiency = self.audit(rows, "score", "y", "group", "--notion", "all")["findings"]
            said = lambda r: r["score"] >= 0.5
            expected = [
                (independence, "mean prediction", adjusted_gap(compared, lambda r: r["score"])),
                (independence, "selection rate", adjusted_gap(compared, said)),
                (separation, "mean prediction", adjusted_gap(compared, lambda r: r["score"], level=lambda r: r["y"])),
                (separation, "true positive rate", adjusted_gap([r for r in compared if r["y"]], said)),
                (sufficiency, "precision", adjusted_gap([r for r in compared if said(r)], lambda r: r["y"])),
                (sufficiency, "negative predictive value",
                 adjusted_gap([r for r in compared if not said(r)], lambda r: 1 - r["y"])),
                (sufficiency, "calibration", adjusted_gap(compared, lambda r: r["y"], level=lambda r: r["score"]))]
            for finding, name, value in expected:
                gap = self.gaps(finding)[name]
                self.assertAlmostEqual(gap["gap"], value, 10, (positives, name))
                self.assertEqual(gap["groups"], 2)
            self.assertNotIn("selection rate", self.gaps(separation))
            self.assertIn("at_prediction", self.gaps(sufficiency)["calibration"])

    def test_given(self):
        """Admissions by department: the groups apply to different ones, and are treated alike in each."""
        draw = random.Random(63)
        rows = []
        for _ in range(3000):
            g = draw.choice("mf")
            department = draw.choices("ABC", (6, 2, 1) if g == "m" else (1, 2, 6))[0]
            score = {"A": 0.7, "B": 0.5, "C": 0.3}[department] + 0.1 * draw.gauss(0, 1)
            rows.append({"y": draw.randrange(2), "score": round(score, 3), "group": g, "department": department,
                         "level": "ABC".index(department) + 0.001 * draw.random()})
        plain = self.audit(rows, "score", "y", "group", "--notion", "independence")["findings"][0]
        self.assertEqual(plain["decision"], "depends")
        self.assertGreater(self.gaps(plain)["selection rate"]["gap"], 0.3)
        result = self.audit(rows, "score", "y", "group", "--notion", "all", "--given", "department")
        self.assertEqual(result["given"], ["department"])
        cell, said = lambda r: r["department"], lambda r: r["score"] >= 0.5
        values = [adjusted_gap(rows, said, cell=cell), adjusted_gap(rows, lambda r: r["score"], cell=cell)]
        independence = result["findings"][1]
        for name, value in zip(("selection rate", "mean prediction"), values):
            gap = self.gaps(independence)[name]
            self.assertAlmostEqual(gap["gap"], value, 10)
            self.assertLess(gap["gap"], gap["chance_upper"])
        self.assertEqual({f["decision"] for f in result["findings"]}, {"no dependence found"})
        self.assertAlmostEqual(self.gaps(result["findings"][0])["true positive rate"]["gap"],
                               adjusted_gap([r for r in rows if r["y"]], said, cell=cell), 10)
        number = self.audit(rows, "score", "y", "group", "--notion", "independence", "--given", "level")["findings"][0]
        self.assertEqual(number["decision"], "no dependence found")

    def test_regression(self):
        """The outcome is the prediction and noise for one group, and 2 more for the other."""
        draw = random.Random(64)
        rows = []
        for _ in range(2000):
            g, p = draw.choice("ab"), 10 * draw.gauss(0, 1)
            rows.append({"y": p + 2 * (g == "b") + draw.gauss(0, 1), "p": p, "group": g})
        _, independence, sufficiency = self.audit(rows, "p", "y", "group", "--notion", "all")["findings"]
        self.assertEqual((independence["decision"], sufficiency["decision"]), ("no dependence found", "depends"))
        gap = self.gaps(sufficiency)["calibration"]
        self.assertAlmostEqual(gap["gap"], 2, delta=0.15)  # five standard errors of about 0.03
        self.assertEqual((gap["high"], gap["low"]), ("b", "a"))
        self.assertAlmostEqual(self.gaps(independence)["mean prediction"]["gap"], adjusted_gap(rows, lambda r: r["p"]), 9)

    def test_page(self):
        self.drawn = True
        self.audit(people(600, 0.5, 65), "score", "y", "group", "--notion", "all")
        page = (self.path / "report" / "report.html").read_text()
        for text in ("<h3>Separation</h3>", "<h3>Independence</h3>", "<h3>Sufficiency</h3>", "negative predictive value"):
            self.assertIn(text, page)
        self.assertTrue((self.path / "report" / "1-rates-sufficiency.svg").is_file())

    def test_refused(self):
        self.write_people(people(300, 0.5, 66))
        refuse = lambda words, *options: self.refuse(2, words, "audit", "people.csv", "--prediction", "score", "--target",
                                                     "y", "--sensitive", "group", "-o", "report", *options)
        refuse(["'group' is in --given and in --sensitive"], "--given", "group")
        refuse(["'y' is the target", "--notion"], "--given", "y")
        refuse(["no column 'cod'", "did you mean 'code'"], "--given", "cod")
        refuse(["--notion"], "--notion", "parity")
        refuse(["--numbers", "'group' is text"], "--numbers", "group")
        refuse(["concerns sufficiency", "--notion sufficiency or all"], "--fail-if", "sufficiency.kpc>0.1")


class CompareTest(AuditTest):
    def test_paired(self):
        """Two predictions that differ by little noise: the interval of their difference is narrower than either's."""
        rows = people(2000, 0.5, 40)
        draw = random.Random(41)
        for r in rows:
            r["worse"] = round(min(1, max(0, r["score"] + draw.choice((-0.06, 0.06)))), 3)
            r["fair"] = round(min(1, max(0, r["score"] - 0.12 * r["code"])), 3)
        result = self.audit(rows, "score,worse,fair")
        of = lambda first, second, name: next(d for d in result["differences"]
                                              if (d["first"], d["second"], d["of"]) == (first, second, name))
        auc = of("score", "worse", "AUC")
        quality = {q["prediction"]: q["auc"] for q in result["quality"]}
        self.assertAlmostEqual(auc["difference"], quality["score"]["value"] - quality["worse"]["value"], 12)
        self.assertLess(auc["upper"] - auc["lower"], 0.6 * (quality["score"]["upper"] - quality["score"]["lower"]))
        self.assertEqual(auc["better"], "score")
        gaps = [self.gaps(f)["false positive rate"]["gap"] for f in result["findings"]]
        gap = of("score", "fair", "false positive rate")
        self.assertAlmostEqual(gap["difference"], gaps[0] - gaps[2], 12)
        self.assertEqual((gap["better"], gap["gap_between_groups_of"]), ("fair", "group"))
        self.assertIn("Which prediction is better", (self.path / "report" / "report.html").read_text())
        self.assertNotIn("differences", self.audit(rows))


class GateTest(AuditTest):
    def gate(self, limits, *options):
        return self.run_circe("audit", "people.csv", "--prediction", "score", "--target", "y", "--sensitive", "group",
                              "--calibrate", "0", "-o", "report", "--fail-if", limits, *options)

    def test_limits(self):
        rows = people(2000, 0.5, 30)
        found = self.audit(rows)["findings"][0]
        kpc = found["effects"]["kpc"]
        self.assertAlmostEqual(found["kpc_above_chance"]["value"], kpc["value"] - kpc["chance"], 12)
        value = {"kpc": kpc["value"] - kpc["chance"], "raw_kpc": kpc["value"],
                 "tpr_gap": self.gaps(found)["true positive rate"]["gap"]}
        for limit, status in ((0.001, 0), (-0.001, 3)):
            limits = ["%s>%.6f" % (name, one + limit) for name, one in value.items()] + ["auc<%g" % (0.999 if status else 0.1)]
            result = self.gate(",".join(limits))
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual(result.stderr.count("--fail-if"), len(limits) if status else 0)
            self.assertIn("The report", result.stdout)
            if status == 0:
                self.assertIn("within the tolerance (95 %)", " ".join(result.stdout.split()))
        said = " ".join(result.stdout.split("Limits:")[1].split())
        self.assertIn("kpc above chance is %#.2g" % value["kpc"], said)
        self.assertIn("; KPC is %#.2g, and chance alone would give %#.2g)" % (kpc["value"], kpc["chance"]), said)
        self.assertIn("raw_kpc is %#.2g" % kpc["value"], said)
        self.assertEqual(said.count("chance alone would give"), 2)
        self.assertIn("below the limit of 0.999: outside the tolerance (95 %)", result.stderr)

    def test_many_groups_do_not_fail_by_chance(self):
        """30 groups that mean nothing raise KPC by chance alone. The gate is about what exceeds that: on four tables it must
        pass (the interval of KPC above chance is about 0.015 to both sides), although raw KPC is beyond the limit."""
        draw = random.Random(40)
        for seed in range(4):
            rows = people(1000, 0.5, 41 + seed, groups=("a",))
            for r in rows:
                r["group"] = "g%d" % draw.randrange(30)
            self.write_people(rows)
            result = self.gate("kpc>0.02,raw_kpc>0.02", "--json", "--smallest-group", "1", "--test", "gcm")
            checks = {c["condition"]: c for c in json.loads(result.stdout)["checks"]}
            self.assertFalse(checks["kpc>0.02"]["failed"], (seed, checks))
            self.assertNotEqual(checks["kpc>0.02"]["interval"], "outside")
            self.assertTrue(checks["raw_kpc>0.02"]["failed"], (seed, checks))

    def test_what_the_interval_says(self):
        self.write_people(people(1500, 0.5, 31))
        result = self.gate("tpr_gap>0.9,tpr_gap>0.001,auc<0.6,r2<0", "--json")
        self.assertEqual(result.returncode, 3)
        checks = {c["condition"]: c for c in json.loads(result.stdout)["checks"]}
        self.assertEqual([(c["failed"], c["interval"]) for c in checks.values()],
                         [(False, "within"), (True, "outside"), (False, "within"), (True, "cannot tell")])
        gap = checks["tpr_gap>0.9"]
        middle = "tpr_gap>%.6f" % ((gap["value"] + gap["upper"]) / 2)
        check = json.loads(self.gate(middle, "--json").stdout)["checks"][0]
        self.assertEqual((check["failed"], check["interval"]), (False, "cannot tell"))
        self.assertIn("Limits", (self.path / "report" / "report.html").read_text())

    def test_limits_of_notions(self):
        self.write_people(people(600, 0.5, 33))
        result = self.gate("kpc>0.9,npv_gap>0.9,selection_gap>0.9,sufficiency.kpc>0.9,calibration_gap>0.9,auc<0.1,"
                           "sufficiency.tpr_gap>0.9", "--notion", "all", "--json")
        self.assertEqual(result.returncode, 3)
        checks = [(c["condition"].split(">")[0], c.get("notion"), c["failed"]) for c in json.loads(result.stdout)["checks"]]
        self.assertEqual(checks, [("kpc", "separation", False), ("kpc", "independence", False), ("kpc", "sufficiency", False),
                                  ("npv_gap", "sufficiency", False), ("selection_gap", "independence", False),
                                  ("sufficiency.kpc", "sufficiency", False), ("calibration_gap", "sufficiency", False),
                                  ("auc<0.1", None, False), ("sufficiency.tpr_gap", "sufficiency", True)])
        self.assertIn("score, group, sufficiency: tpr_gap does not exist here", result.stderr)
        alone = self.gate("npv_gap>0.9")
        self.assertEqual(alone.returncode, 3)
        self.assertIn("npv_gap does not exist here", alone.stderr)

    def test_bad_limits(self):
        self.write_people(people(200, 0.5, 32))
        for limits, word in (("kpq>1", "did you mean kpc"), ("kpc", "such as"), ("kpc>x", "such as"), (">1", "such as"),
                             ("fairness>1", "choose kpc")):
            result = self.gate(limits)
            self.assertEqual(result.returncode, 2, limits)
            self.assertIn(word, result.stderr)


@unittest.skipUnless(os.environ.get("CIRCE_DATA"), "CIRCE_DATA does not name the folder of the real data")
class CompasTest(CliTest):
    def test_published_finding(self):
        """False positive rates of about .45 and .23 for the two large groups, and a gap that small groups do not hide."""
        data = pathlib.Path(os.environ["CIRCE_DATA"]) / "tables" / "compas.csv"
        result = self.as_json("audit", str(data), "--prediction", "score", "--target", "label_value", "--sensitive",
                              "race", "--calibrate", "0", "-o", "compas")
        finding = result["findings"][0]
        groups = finding["groups"]
        rate = dict(zip(groups["labels"], groups["metrics"]["false_positive_rate"]["value"]))
        self.assertAlmostEqual(rate["African-American"], 0.448, 2)
        self.assertAlmostEqual(rate["Caucasian"], 0.235, 2)
        gap = next(g for g in finding["gaps"] if g["of"] == "false positive rate")
        self.assertEqual(gap["high"], "African-American")
        self.assertGreater(gap["gap"], 2 * gap["chance_upper"])
        self.assertEqual(sum(groups["compared"]), 4)


if __name__ == "__main__":
    unittest.main()
