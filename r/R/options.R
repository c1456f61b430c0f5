# Options of the library's jobs, from its own table: their names, types and texts.

schemas <- new.env(parent = emptyenv())

# A data frame, one row per option. `argument` is the name in R.
schema <- function(job) {
  if (is.null(schemas[[job]])) {
    rows <- as.data.frame(.Call(circe_r_schema, job), stringsAsFactors = FALSE)
    rows$argument <- gsub("-", "_", rows$name, fixed = TRUE)
    schemas[[job]] <- rows
  }
  schemas[[job]]
}

# Options that R's functions set themselves, or that R spells in its own way.
own_options <- list(
  test = c("x", "y", "z", "data", "columns_x", "columns_y", "columns_z", "categories", "na", "decimal", "missing", "weights",
           "auxiliary_y", "auxiliary_z"),
  measure = c("x", "y", "z", "data", "columns_x", "columns_y", "columns_z", "categories", "na", "decimal", "missing", "weights", "model",
              "holdout_y", "holdout_z", "holdout_data", "grad"),
  audit = c("data", "categories", "na", "decimal", "missing"),
  train = c("data", "categories", "na", "decimal", "missing"),
  predict = c("data", "categories", "na", "decimal", "missing", "model", "output"))

circe_options <- function(job = c("test", "measure", "audit", "train")) {
  job <- match.arg(job)
  rows <- schema(job)
  rows <- rows[!rows$argument %in% own_options[[job]], ]
  takes <- ifelse(rows$kind == "choice", gsub("|", ", ", rows$words, fixed = TRUE),
                  ifelse(is.na(rows$words), rows$kind, paste(rows$kind, "or", rows$words)))
  structure(data.frame(option = rows$argument, takes = takes, default = rows$default, group = rows$group,
                       help = in_words_of_r(rows$help, job), row.names = NULL),
            class = c("circe_options", "data.frame"))
}

print.circe_options <- function(x, ...) {
  for (i in seq_len(nrow(x))) {
    default <- if (is.na(x$default[i])) "" else paste0(", default ", x$default[i])
    cat(x$option[i], " (", x$takes[i], default, ")\n", sep = "")
    cat(strwrap(x$help[i], indent = 4, exdent = 4), sep = "\n")
  }
  invisible(x)
}

# Rewrites the options in a text of the library as R writes them: --test-share 0.5 becomes test_share = 0.5.
in_words_of_r <- function(text, job) {
  rows <- schema(job)
  for (i in order(-nchar(rows$name))) {
    option <- paste0("--", rows$name[i])
    if (identical(rows$kind[i], "choice")) {
      words <- strsplit(rows$words[i], "|", fixed = TRUE)[[1]]
      words <- gsub("([.\\])", "\\\\\\1", words[nzchar(words)])
      pattern <- paste0(option, " (", paste(words, collapse = "|"), ")(?![a-z0-9_-])")
      text <- gsub(pattern, paste0(rows$argument[i], ' = "\\1"'), text, perl = TRUE)
    }
    text <- gsub(paste0(option, " (-?[0-9][0-9.e-]*)(?![a-z0-9_-])"), paste0(rows$argument[i], " = \\1"), text, perl = TRUE)
    text <- gsub(paste0(option, "(?![a-z0-9-])"), rows$argument[i], text, perl = TRUE)
  }
  text
}

# The texts of a list of options, by the library's names.
option_texts <- function(job, given, call) {
  rows <- schema(job)
  given <- given[!vapply(given, is.null, NA)]
  if (length(given) == 0) return(character())
  if (is.null(names(given)) || any(!nzchar(names(given))))
    refuse(call, "an option was given without its name. Write name = value.")
  known <- setdiff(rows$argument, own_options[[job]])
  for (name in setdiff(names(given), known)) refuse_option(job, name, known, call)
  if (anyDuplicated(names(given))) refuse(call, "the option '", names(given)[duplicated(names(given))][1], "' was given twice.")
  at <- match(names(given), rows$argument)
  texts <- vapply(seq_along(given), function(i) option_text(rows[at[i], ], given[[i]], call), "")
  names(texts) <- rows$name[at]
  texts
}

refuse_option <- function(job, name, known, call) {
  nearest <- .Call(circe_r_nearest, job, gsub("[_.]", "-", name))
  nearest <- if (is.na(nearest)) NA else gsub("-", "_", nearest, fixed = TRUE)
  hint <- if (nearest %in% known) paste0(" Did you mean '", nearest, "'?") else ""
  refuse(call, "there is no option '", name, "'.", hint, " circe_options(\"", job, "\") lists them.")
}

option_text <- function(row, value, call) {
  name <- row$argument
  must <- function(what) refuse(call, "'", name, "' is ", described(value), "; it must be ", what, ".")
  many <- row$kind %in% c("list", "positives")
  if (!is.atomic(value) || length(value) == 0 || anyNA(value) || (!many && length(value) != 1))
    must(if (many) "a vector without missing values" else "a single value")
  if (row$kind == "flag") {
    if (!is.logical(value)) must("TRUE or FALSE")
    return(if (value) "true" else "false")
  }
  if (is.logical(value)) must(takes(row))
  if (row$kind == "choice" && !as.character(value) %in% strsplit(row$words, "|", fixed = TRUE)[[1]]) must(takes(row))
  if (row$kind %in% c("integer", "count", "number", "positive", "positives") && !is.numeric(value) && !value[1] %in% row$words)
    must(takes(row))
  if (row$kind %in% c("text", "path") && !is.character(value)) must("a text")
  texts <- if (is.numeric(value)) vapply(value, format_exactly, "") else enc2utf8(as.character(value))
  if (row$kind == "list") listed(texts) else paste(texts, collapse = ",")
}

takes <- function(row) {
  words <- if (is.na(row$words)) character() else paste0("\"", strsplit(row$words, "|", fixed = TRUE)[[1]], "\"")
  kind <- c(integer = "a whole number", count = "a whole number", number = "a number", positive = "a number above 0",
            positives = "numbers above 0", text = "a text", path = "a path", list = "texts", bytes = "a size as \"4G\"")
  if (row$kind == "choice") paste("one of", paste(words, collapse = ", "))
  else paste(c(kind[[row$kind]], words), collapse = " or ")
}

format_exactly <- function(x) if (x == round(x) && abs(x) < 1e15) format(x, scientific = FALSE, trim = TRUE) else sprintf("%.17g", x)

# Names as the library lists them: a,b,"c,d".
listed <- function(names) {
  quoted <- grepl("[,\"]", names)
  names[quoted] <- paste0("\"", gsub("\"", "\"\"", names[quoted], fixed = TRUE), "\"")
  paste(names, collapse = ",")
}

described <- function(value) {
  if (is.null(value)) return("NULL")
  if (is.atomic(value) && length(value) == 1) return(deparse(value))
  paste0("of class '", class(value)[1], "' and length ", length(value))
}
