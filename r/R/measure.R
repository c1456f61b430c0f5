# Measures of conditional dependence.

measures <- c("circe", "circe-spectral", "hsic", "hscic", "gcm", "kci", "nocco", "kpc", "all")

circe_measure <- function(x, ...) UseMethod("circe_measure")

circe_measure.formula <- function(formula, data, measure = "circe", ..., subset, weights, na.action, ordered = c("scores", "categories"),
                                  seed = 0, threads = getOption("circe.threads", 0L)) {
  call <- called("circe_measure", match.call())
  found <- variables_of_formula(formula, if (missing(data)) NULL else data, call, parent.frame())
  measure_found(found, measure, list(...), match.arg(ordered), seed, threads, call)
}

circe_measure.default <- function(x, z, y = NULL, measure = "circe", ..., weights = NULL,
                                  na.action = getOption("na.action", "na.omit"), ordered = c("scores", "categories"), seed = 0, threads = getOption("circe.threads", 0L)) {
  call <- called("circe_measure", match.call())
  if (missing(x) || missing(z)) refuse(call, "x and z are needed, and y for all measures but hsic.")
  labels <- list(x = deparse1(substitute(x)), z = deparse1(substitute(z)), y = if (!is.null(y)) deparse1(substitute(y)))
  found <- variables_of_values(x, z, y, weights, na.action, labels, call)
  measure_found(found, measure, list(...), match.arg(ordered), seed, threads, call)
}

measure_found <- function(found, measure, options, ordered, seed, threads, call) {
  measure <- one_of(measure, measures, "measure", call)
  table <- table_of(found, ordered, call)
  texts <- option_texts("measure", c(options, list(seed = seed_of(seed, call))), call)
  result <- run("measure", measure, table$columns, c(texts, table$options), threads, call)
  values <- if (measure == "all") measured_all(result) else stats::setNames(result$value, measure)
  structure(list(value = values, measure = measure, data.name = named_so(found$labels), dropped = found$dropped, details = result),
            class = "circe_measure")
}

measured_all <- function(result) {
  names <- vapply(result$measures, `[[`, "", "measure")
  form <- vapply(result$measures, function(row) if (is.null(row$estimator)) "" else paste0(" (", row$estimator, ")"), "")
  twice <- names %in% names[duplicated(names)]
  stats::setNames(vapply(result$measures, function(row) number_or_na(row$value), 0), paste0(names, ifelse(twice, form, "")))
}

as.double.circe_measure <- function(x, ...) unname(x$value)

print.circe_measure <- function(x, digits = getOption("digits"), ...) {
  cat("\n\tConditional dependence\n\ndata:  ", x$data.name, "\n", sep = "")
  print(signif(x$value, digits))
  if (!is.null(x$details$meaning)) cat(strwrap(x$details$meaning), sep = "\n")
  if (x$dropped > 0) cat(left_out(x$dropped), "\n", sep = "")
  cat("\n")
  invisible(x)
}
