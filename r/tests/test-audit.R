# circe_audit, circe_train and predict.
source("support.R")
set.seed(2)
n <- 900
d <- data.frame(sex = factor(sample(c("f", "m"), n, TRUE)), age = round(runif(n, 18, 80)), quality = rnorm(n),
                group = factor(sample(1:3, n, TRUE)))
d$repaid <- d$quality + rnorm(n) > 0
d$score <- plogis(d$quality + 0.8 * (d$sex == "m"))

# ---- audits
report <- file.path(tempdir(), "audit")
audit <- circe_audit(d, "score", "repaid", c("sex", "group"), calibrate = 20, draws = 200, fail_if = "kpc>0.02", report = report)
table <- as.data.frame(audit)
stopifnot(identical(table$attribute, c("sex", "group")), identical(table$decision[1], "depends"), table$p.adjusted[1] < 1e-3,
          table$p.adjusted[2] > 0.05, audit$checks$failed[1], all(c("f", "m", "1", "2", "3") %in% audit$groups$group),
          any(audit$quality$metric == "auc"), file.exists(file.path(report, "report.html")), nrow(audit$gaps) > 2)
shown <- capture.output(print(audit))
stopifnot(any(grepl("score still depends on sex", shown)), any(grepl("Limits exceeded", shown)))
check_refused(circe_audit(d, "scroe", "repaid", "sex"), "'prediction' names 'scroe', which is not a column")
check_refused(circe_audit(as.matrix(d["age"]), "score", "repaid", "sex"), "it must be a data frame")
check_refused(circe_audit(d, "score", "repaid", "sex", fail_if = "kpcc>1"), "kpcc")

# ---- weights, and columns that are given
d$w <- rep(c(0, 1, 2), 300)
copies <- d[rep(1:n, d$w), ]
weighted <- circe_audit(d, "score", "repaid", "sex", weights = "w", calibrate = 0, draws = 200)
repeated <- circe_audit(copies, "score", "repaid", "sex", calibrate = 0, draws = 200)
rates <- c("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "accuracy")
check_near(unlist(weighted$groups[rates]), unlist(repeated$groups[rates]), 1e-9, "weighted rates")
check_near(weighted$gaps$gap, repeated$gaps$gap, 1e-9, "weighted gaps")
stopifnot(weighted$n == 600, nrow(circe_audit(d, "score", "repaid", "sex", given = "group", calibrate = 0, draws = 200)$findings) == 1)
check_refused(circe_audit(d, "score", "repaid", "sex", weights = "v"), "'weights' names 'v', which is not a column")
check_refused(circe_audit(d, "score", "repaid", "sex", weights = "sex"), "one column of numbers")

# ---- training and prediction
fitted <- circe_train(d, c("quality", "sex"), "score", invariant_to = "sex", given = "quality", gamma = 100, epochs = 5)
p <- predict(fitted, d)
stopifnot(length(p) == n, !anyNA(p), identical(p, predict(unserialize(serialize(fitted, NULL)), d)),
          identical(p, predict(circe_train(d, c("quality", "sex"), "score", invariant_to = "sex", given = "quality", gamma = 100, epochs = 5), d)))
invisible(capture.output(print(fitted)))
holes <- d[1:5, ]
holes$quality[2] <- NA
stopifnot(identical(is.na(predict(fitted, holes)), c(FALSE, TRUE, FALSE, FALSE, FALSE)))
unseen <- transform(d[1:3, ], sex = factor(c("f", "x", "m")))
check_refused(predict(fitted, unseen), "row 2, column 'sex' is 'x', which did not occur in training")
check_refused(predict(fitted, d["age"]), "'features' names 'quality'")
check_refused(predict(fitted, d, type = "class"), "the target of this model is a number")
heavy <- circe_train(d, c("quality", "sex"), "score", invariant_to = "sex", given = "quality", gamma = 100, epochs = 5, row_weights = "w")
stopifnot(!identical(predict(heavy, d), p))
check_refused(circe_train(d, "quality", "score", gama = 3), "Did you mean 'gamma'?")
check_refused(circe_train(d, "quality", "score", invariant_to = "sex", gamma = -1), "gamma")
classes <- circe_train(d, c("quality", "age"), "group", regularizer = "none", epochs = 3)
shares <- predict(classes, d[1:4, ], type = "probabilities")
stopifnot(identical(dim(shares), c(4L, 3L)), identical(colnames(shares), c("1", "2", "3")), max(abs(rowSums(shares) - 1)) < 1e-5,
          identical(levels(predict(classes, d[1:4, ], type = "class")), c("1", "2", "3")))

# ---- options
options <- circe_options("train")
stopifnot("gamma" %in% options$option, !any(grepl("--", options$help, fixed = TRUE)))
invisible(capture.output(print(options)))
stopifnot(grepl("^[0-9]+\\.[0-9]+\\.[0-9]+$", circe_version()))
