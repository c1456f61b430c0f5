# Tests of conditional independence.

test_methods <- c(kci = "Kernel conditional independence test (KCI)", circe = "CIRCE test of conditional independence",
                  splitkci = "Split kernel conditional independence test", gcm = "Generalised covariance measure test",
                  rcot = "Randomised conditional correlation test (RCoT)", hsic = "Hilbert-Schmidt independence test (HSIC)",
                  wgcm = "Weighted generalised covariance measure test", pcm = "Projected covariance measure test")

statistics <- c(kci = "KCI", circe = "CIRCE", splitkci = "SplitKCI", gcm = "GCM", rcot = "RCoT", hsic = "HSIC", wgcm = "wGCM",
                pcm = "PCM")

nulls <- c(gamma = "gamma approximation", spectral = "weighted chi-squares", wild = "wild bootstrap",
           permutation = "permutation", normal = "normal distribution", multiplier = "multiplier bootstrap")

circe_test <- function(x, ...) UseMethod("circe_test")

circe_test.formula <- function(formula, data, method = "kci", ..., subset, weights, na.action, ordered = c("scores", "categories"),
                               seed = 0, threads = getOption("circe.threads", 0L)) {
  call <- called("circe_test", match.call())
  found <- variables_of_formula(formula, if (missing(data)) NULL else data, call, parent.frame())
  test_found(found, method, list(...), match.arg(ordered), seed, threads, call)
}

circe_test.default <- function(x, z, y = NULL, method = "kci", ..., weights = NULL, na.action = getOption("na.action", "na.omit"),
                               ordered = c("scores", "categories"), seed = 0, threads = getOption("circe.threads", 0L)) {
  call <- called("circe_test", match.call())
  if (missing(x) || missing(z)) refuse(call, "x and z are needed; y, the condition, may be left out.")
  labels <- list(x = deparse1(substitute(x)), z = deparse1(substitute(z)), y = if (!is.null(y)) deparse1(substitute(y)))
  found <- variables_of_values(x, z, y, weights, na.action, labels, call)
  test_found(found, method, list(...), match.arg(ordered), seed, threads, call)
}

test_found <- function(found, method, options, ordered, seed, threads, call) {
  method <- one_of(method, c(names(test_methods), "all"), "method", call)
  table <- table_of(found, ordered, call)
  texts <- option_texts("test", c(options, list(seed = seed_of(seed, call))), call)
  result <- run("test", method, table$columns, c(texts, table$options), threads, call)
  if (method != "all") return(htest_of(result, found, result))
  tests <- lapply(result$tests, htest_of, found = found, whole = result)
  names(tests) <- vapply(result$tests, `[[`, "", "method")
  structure(tests, class = "circe_tests", data.name = named_so(found$labels))
}

# The call as the user wrote it, without the name of the method.
called <- function(name, call) {
  call[[1]] <- as.name(name)
  call
}

left_out <- function(n) paste(n, if (n == 1) "row with a missing value was left out." else "rows with missing values were left out.")

# The name of a word in a table, or the word itself if only a newer library knows it.
called_in <- function(names, word) if (word %in% base::names(names)) names[[word]] else word

one_of <- function(value, words, name, call) {
  if (!is.character(value) || length(value) != 1 || !value %in% words)
    refuse(call, "'", name, "' is ", described(value), "; it must be one of ", paste0("\"", words, "\"", collapse = ", "), ".")
  value
}

# Makes a result of the library an R object. `whole`: what all tests of one call share.
htest_of <- function(result, found, whole) {
  base <- list(method = called_in(test_methods, result$method), data.name = named_so(found$labels), n = whole$n, dropped = found$dropped,
               seed = whole$seed, columns = whole$columns, call_method = result$method)
  if (!is.null(result$error)) return(structure(c(base, list(p.value = NA_real_, error = result$error)), class = c("circe_test", "htest")))
  draws <- result$diagnostics$draws
  labels <- if (result$method == "hsic") found$labels[c("x", "z")] else found$labels
  test <- c(base, list(statistic = stats::setNames(result$statistic, called_in(statistics, result$method)),
                       parameter = c(n = result$n, if (draws > 0) c(draws = draws)), p.value = result$p_value,
                       alternative = named_so(labels, "depends on"), null.distribution = result$null,
                       trust = result$trust, verdict = result$verdict, diagnostics = result$diagnostics))
  test$method <- paste0(test$method, ", ", called_in(nulls, result$null))
  if (!is.null(whole$effects)) {
    test$estimate <- c(kpc = whole$effects$kpc$value, circe = whole$effects$circe$value)
    test$effects <- whole$effects
    test$along <- if (!is.null(whole$along)) as.data.frame(whole$along[c("place", "value", "lower", "upper", "null_upper")])
  }
  test$calibration <- whole$calibration
  structure(test, class = c("circe_test", "htest"))
}

print.circe_test <- function(x, ...) {
  if (!is.null(x$error)) {
    cat("\n\t", x$method, "\n\ndata:  ", x$data.name, "\nno result: ", x$error, "\n\n", sep = "")
    return(invisible(x))
  }
  NextMethod()
  notes <- c(if (x$dropped > 0) left_out(x$dropped),
             if (x$trust != "good") paste0("Trust in this p-value is ", x$trust, ": ", x$verdict),
             if (!is.null(x$calibration)) x$calibration$verdict)
  if (length(notes) > 0) cat(strwrap(notes), "", sep = "\n")
  invisible(x)
}

as.data.frame.circe_tests <- function(x, ...) {
  number <- function(value) if (is.null(value)) NA_real_ else unname(value)
  data.frame(method = names(x), statistic = vapply(x, function(t) number(t$statistic), 0), p.value = vapply(x, `[[`, 0, "p.value"),
             trust = vapply(x, function(t) if (is.null(t$trust)) NA_character_ else t$trust, ""), row.names = NULL)
}

print.circe_tests <- function(x, digits = getOption("digits"), ...) {
  cat("\n\tTests of conditional independence\n\ndata:  ", attr(x, "data.name"), "\n\n", sep = "")
  shown <- as.data.frame(x)
  shown$p.value <- format.pval(shown$p.value, digits = max(1L, digits - 3L))
  shown$statistic <- format(shown$statistic, digits = max(1L, digits - 2L))
  print(shown, row.names = FALSE)
  failed <- Filter(function(test) !is.null(test$error), unclass(x))
  for (name in names(failed)) cat(strwrap(paste0(name, ": ", failed[[name]]$error)), sep = "\n")
  invisible(x)
}
