# circe_test: an htest, from formulas and values, factors, missing values, weights, seeds.
source("support.R")
d <- people()

# ---- an htest, which says the right thing
innocent <- circe_test(innocent ~ z | y, data = d)
guilty <- circe_test(guilty ~ z | y, data = d)
stopifnot(inherits(innocent, "htest"), innocent$p.value > 0.05, guilty$p.value < 1e-3,
          identical(innocent$data.name, "innocent and z given y"), identical(names(innocent$statistic), "KCI"),
          identical(unname(innocent$parameter["n"]), 300), innocent$trust %in% c("good", "doubtful", "poor"))
shown <- capture.output(print(guilty))
stopifnot(any(grepl("Kernel conditional independence test", shown)), any(grepl("^KCI = .*p-value", shown)),
          any(grepl("alternative hypothesis: guilty depends on z given y", shown)))

# ---- formula, vectors and matrices are the same test
same <- circe_test(d$innocent, d$z, d$y)
stopifnot(identical(same$p.value, innocent$p.value), identical(same$data.name, "d$innocent and d$z given d$y"))
stopifnot(identical(circe_test(cbind(innocent, guilty) ~ z | y, d)$p.value, circe_test(innocent + guilty ~ z | y, d)$p.value),
          identical(circe_test(as.matrix(d[c("innocent", "guilty")]), d["z"], d$y)$p.value, circe_test(innocent + guilty ~ z | y, d)$p.value),
          identical(circe_test(innocent ~ z | ., d[c("innocent", "z", "y")])$p.value, innocent$p.value),
          identical(circe_test(innocent ~ I(2 * z) | y, d)$p.value > 0.05, TRUE))

# ---- every method, and all of them
every <- circe_test(guilty ~ z | y, d, method = "all")
table <- as.data.frame(every)
stopifnot(all(c("kci", "circe", "splitkci", "gcm", "rcot", "hsic", "wgcm", "pcm") %in% table$method), all(table$p.value < 0.05))
for (method in table$method) {
  one <- circe_test(guilty ~ z | y, d, method = method)
  stopifnot(identical(one$p.value, table$p.value[table$method == method]), inherits(one, "htest"))
}
invisible(capture.output(print(every)))
marginal <- circe_test(innocent ~ z, d, method = "hsic")
stopifnot(marginal$p.value < 0.05, identical(marginal$alternative, "innocent depends on z"))

# ---- factors are categories, whatever their codes and words
a <- circe_test(by_group ~ group | y, d)
renamed <- transform(d, group = factor(c(a = "zebra", b = "", c = "NA")[as.character(group)]))
stopifnot(a$p.value < 1e-3, identical(circe_test(by_group ~ group | y, renamed)$p.value, a$p.value),
          identical(circe_test(by_group ~ as.character(group) | y, d)$p.value, a$p.value),
          identical(a$columns[[1]]$read_as, "categories"), identical(a$columns[[1]]$categories, 3))
words <- transform(d, group = as.character(as.integer(group))) # words that look like numbers are words
stopifnot(identical(circe_test(by_group ~ group | y, words)$p.value, a$p.value))
codes <- circe_test(by_group ~ as.integer(group) | y, d)
stopifnot(!identical(codes$statistic, a$statistic), length(codes$columns) == 0)
conditional <- circe_test(by_group ~ z | group, d)
stopifnot(identical(conditional$null.distribution, "permutation")) # within the strata
# ordered factors are scores, or categories where one says so; logical values are 0 and 1
stopifnot(identical(circe_test(innocent ~ level | y, d)$p.value, circe_test(innocent ~ as.integer(level) | y, d)$p.value),
          identical(circe_test(innocent ~ level | y, d, ordered = "categories")$p.value,
                    circe_test(innocent ~ factor(level, ordered = FALSE) | y, d)$p.value),
          identical(circe_test(innocent ~ I(z > 0) | y, d)$p.value, circe_test(innocent ~ as.numeric(z > 0) | y, d)$p.value))

# ---- missing values
holes <- d
holes$z[c(2, 5)] <- NA
holes$group[7] <- NA
left <- circe_test(innocent ~ z | y, holes)
stopifnot(left$dropped == 2, left$n == 298, identical(left$p.value, circe_test(innocent ~ z | y, d[-c(2, 5), ])$p.value),
          identical(circe_test(holes$innocent, holes$z, holes$y)$p.value, left$p.value),
          any(grepl("2 rows with missing values were left out", capture.output(print(left)))))
check_refused(circe_test(innocent ~ z | y, holes, na.action = na.pass), "'z' is missing in row 2")
check_refused(circe_test(holes$innocent, holes$z, na.action = na.fail), "row 2 has a missing value (2 of 300")
check_refused(circe_test(holes$innocent, holes$group, na.action = na.pass), "'z' is missing in row 7")
check_refused(circe_test(innocent ~ z | y, transform(d, z = NA_real_)), "no row is left: all 300")
stopifnot(inherits(try(circe_test(innocent ~ z | y, holes, na.action = na.fail), silent = TRUE), "try-error"))

# ---- subset, weights
stopifnot(identical(circe_test(innocent ~ z | y, d, subset = y > 0)$p.value, circe_test(innocent ~ z | y, d[d$y > 0, ])$p.value))
d$w <- rep(c(0, 1), 150)
stopifnot(identical(circe_test(innocent ~ z | y, d, weights = w)$p.value, circe_test(d$innocent, d$z, d$y, weights = d$w)$p.value),
          !identical(circe_test(innocent ~ z | y, d, weights = w)$p.value, innocent$p.value))

# ---- seeds and threads
wild <- function(...) circe_test(innocent ~ z | y, d, null = "wild", draws = 200, ...)$p.value
stopifnot(identical(wild(seed = 3), wild(seed = 3)), !identical(wild(seed = 3), wild(seed = 4)))
set.seed(11)
first <- wild(seed = NULL)
set.seed(11)
stopifnot(identical(first, wild(seed = NULL)))
state <- .Random.seed
invisible(wild(seed = 3))
stopifnot(identical(state, .Random.seed), identical(wild(threads = 1), wild(threads = 2)))

# ---- effects and calibration
more <- circe_test(guilty ~ z | y, d, effects = TRUE, calibrate = 20)
stopifnot(all(names(more$estimate) == c("kpc", "circe")), more$estimate["kpc"] > 0.1, nrow(more$along) > 3,
          length(more$calibration$p_values) == 20 || !is.null(more$calibration$level))

# ---- refusals
check_refused(circe_test(innocent ~ z | y, d, method = "kic"), "it must be one of \"kci\"")
check_refused(circe_test(innocent ~ z | y, d, drwas = 100), "Did you mean 'draws'?")
check_refused(circe_test(innocent ~ z | y, d, draws = "many"), "'draws' is \"many\"; it must be a whole number")
check_refused(circe_test(innocent ~ z | y, d, draws = 5), "draws must be between 19 and 1000000")
check_refused(circe_test(innocent ~ z | y, d, null = "normal"), "kci has no null 'normal'")
check_refused(circe_test(innocent ~ z | y, d, effects = 1), "it must be TRUE or FALSE")
check_refused(circe_test(innocent ~ z | y, d, seed = -1), "'seed' is -1")
check_refused(circe_test(innocent ~ z | y, d, threads = 1.5), "'threads' is 1.5")
check_refused(circe_test(innocent ~ z | y, d, data2 = "file.csv"), "there is no option 'data2'")
check_refused(circe_test(innocent ~ z * y, d), "join variables by +")
check_refused(circe_test(innocent ~ z | y | group, d), "more than one |")
check_refused(circe_test(innocent ~ z - 1 | y, d), "join variables by +")
check_refused(circe_test(~ z | y, d), "no left side")
check_refused(circe_test(innocent ~ innocent | y, d), "'innocent' is on both sides of the formula")
check_refused(circe_test(innocent ~ y | y, d), "'y' is on both sides of the |")
check_refused(circe_test(1:10, 1:9), "x has 10, z has 9", "circe_error_shape")
check_refused(circe_test(list(1, 2), 1:2), "it must be a vector, a factor, a matrix or a data frame")
check_refused(circe_test(complex(10, 1), 1:10), "'x' is of class 'complex'")
check_refused(circe_test(c(1, Inf, 3), 1:3), "'x' is Inf in row 2", "circe_error_value")
check_refused(circe_test(1:10), "x and z are needed")
check_refused(circe_test(1:3, 3:1), "8", "circe_error")
