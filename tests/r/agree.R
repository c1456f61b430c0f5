# The R package, the command and the Python package give the same numbers for the same data, options and seed: agree.R COMMAND
library(circe)
command <- commandArgs(TRUE)[1]

set.seed(4)
n <- 250
d <- data.frame(y = rnorm(n), group = sample(c("a", "b", "c"), n, TRUE), w = runif(n))
d$z <- d$y + rnorm(n)
d$x <- d$y^2 + rnorm(n)
d$score <- plogis(d$x)
d$won <- as.integer(d$x + rnorm(n) > 1)
path <- tempfile(fileext = ".csv")
written <- d
written[] <- lapply(d, function(v) if (is.double(v)) sprintf("%.17g", v) else v)
utils::write.csv(written, path, row.names = FALSE, quote = FALSE)

asked <- function(...) {
  text <- system2(command, c(..., "--data", path, "--json"), stdout = TRUE)
  .Call(circe:::circe_r_json, paste(text, collapse = "\n"))
}
same <- function(found, expected, what) {
  if (!isTRUE(all.equal(unname(found), unname(expected), tolerance = 1e-12)))
    stop(what, ": R has ", deparse1(found), " and the command ", deparse1(expected))
  cat(what, format(found, digits = 15), "\n")
}

for (method in c("kci", "circe", "splitkci", "gcm", "rcot", "wgcm", "pcm", "hsic")) {
  said <- asked("test", method, "--x", "x", "--z", "z", if (method != "hsic") c("--y", "y"), "--seed", "3")
  ours <- circe_test(x ~ z | y, d, method = method, seed = 3)
  same(ours$p.value, said$p_value, method)
  same(ours$statistic, said$statistic, paste(method, "statistic"))
}
same(circe_test(x ~ group | y, d)$p.value, asked("test", "kci", "--x", "x", "--z", "group", "--y", "y")$p_value, "categories of z")
same(circe_test(x ~ z | group, d)$p.value, asked("test", "kci", "--x", "x", "--z", "z", "--y", "group")$p_value, "strata")
same(circe_test(x ~ z | y, d, weights = w)$p.value,
     asked("test", "kci", "--x", "x", "--z", "z", "--y", "y", "--weights", "w")$p_value, "weights")
same(as.numeric(circe_measure(x ~ z | y, d, "kpc", weights = w)),
     asked("measure", "kpc", "--x", "x", "--z", "z", "--y", "y", "--weights", "w")$value, "measure, weights")
for (measure in c("circe", "circe-spectral", "hsic", "hscic", "gcm", "kci", "nocco", "kpc")) {
  said <- asked("measure", measure, "--x", "x", "--z", "z", if (measure != "hsic") c("--y", "y"))
  same(as.numeric(circe_measure(x ~ z | y, d, measure)), said$value, paste("measure", measure))
}
said <- asked("audit", "--prediction", "score", "--target", "won", "--sensitive", "group,z", "--calibrate", "20", "--draws", "99",
              "-o", tempfile())
ours <- circe_audit(d, "score", "won", c("group", "z"), calibrate = 20, draws = 99)
same(ours$findings$p.adjusted, vapply(said$findings, `[[`, 0, "p_adjusted"), "audit")
same(ours$findings$kpc, vapply(said$findings, function(f) f$effects$kpc$value, 0), "audit, effects")

# ---- Python, where it has NumPy
program <- paste("import csv, sys, circe, numpy", "rows = list(csv.DictReader(open(sys.argv[1])))",
                 "x, y, z = (numpy.array([float(r[c]) for r in rows]) for c in 'xyz')",
                 "print(repr(circe.test(x, y, z, method='kci', seed=3).p_value), repr(float(circe.kpc(x, y, z))))", sep = "\n")
script <- tempfile(fileext = ".py")
writeLines(program, script)
if (nzchar(Sys.which("python3")) && system2("python3", c("-c", "'import numpy'"), stderr = FALSE) == 0) {
  said <- as.numeric(strsplit(system2("python3", c("-B", script, path), stdout = TRUE), " ")[[1]])
  same(c(circe_test(x ~ z | y, d, seed = 3)$p.value, as.numeric(circe_measure(x ~ z | y, d, "kpc"))), said, "Python")
}
