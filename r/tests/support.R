# Checks that say what they compared.
library(circe)

check_near <- function(found, expected, tolerance, what = deparse1(substitute(found))) {
  worst <- max(abs(unname(found) - unname(expected)) / pmax(abs(unname(expected)), 1e-300))
  if (length(found) != length(expected) || is.na(worst) || worst > tolerance)
    stop(what, " is ", deparse1(found), " and should be ", deparse1(expected), call. = FALSE)
}

check_refused <- function(expression, words, class = "circe_error") {
  error <- tryCatch({ force(expression); NULL }, error = identity)
  if (is.null(error)) stop("there should be an error with '", words, "'", call. = FALSE)
  if (!inherits(error, class) || !grepl(words, conditionMessage(error), fixed = TRUE))
    stop("the error is of class ", class(error)[1], ": ", conditionMessage(error), "; it should say '", words, "'", call. = FALSE)
}

people <- function(n = 300, seed = 1) {
  set.seed(seed)
  y <- rnorm(n)
  z <- y^2 + rnorm(n)
  group <- factor(sample(c("a", "b", "c"), n, TRUE))
  data.frame(y = y, z = z, innocent = y^2 + rnorm(n), guilty = z + rnorm(n), group = group,
             by_group = as.integer(group) + rnorm(n), level = factor(cut(z, 4, labels = FALSE), ordered = TRUE))
}
