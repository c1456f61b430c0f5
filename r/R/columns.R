# R's vectors as columns of the library's tables: numbers as doubles, factors and texts as factors.

# Turns a vector into a column. `ordered` says how to treat ordered factors.
column <- function(values, name, ordered, call) {
  if (is.character(values)) return(words(factor(values), name))
  if (is.ordered(values) && ordered == "scores") return(as.double(values))
  if (is.factor(values)) return(words(droplevels(values), name))
  numeric <- is.numeric(values) || is.logical(values) || inherits(values, c("Date", "POSIXct", "difftime"))
  if (!numeric || inherits(values, "integer64"))
    refuse(call, "'", name, "' is of class '", class(values)[1], "'; it must contain numbers, logical values, dates, texts or a factor.")
  values <- as.double(values)
  infinite <- which(is.infinite(values))
  if (length(infinite) > 0)
    refuse(call, "'", name, "' is ", values[infinite[1]], " in row ", infinite[1], "; it must be finite. Replace such values or ",
           "make them NA.", status = "value")
  values
}

# The library takes an empty text for a missing one; in R it is a word like any other.
words <- function(values, name) {
  values <- factor(values, ordered = FALSE)
  empty <- levels(values) == ""
  if (any(empty)) levels(values)[empty] <- make.unique(c(levels(values)[!empty], "(empty)"))[nlevels(values)]
  values
}

# A list of named vectors from a data frame, whose matrices become one column each.
flat <- function(frame) {
  parts <- lapply(names(frame), function(name) {
    values <- frame[[name]]
    if (is.data.frame(values)) return(stats::setNames(as.list(values), paste0(name, ".", names(values))))
    if (length(dim(values)) != 2) return(stats::setNames(list(values), name))
    of <- if (is.null(colnames(values))) seq_len(ncol(values)) else colnames(values)
    stats::setNames(lapply(seq_len(ncol(values)), function(j) as.vector(values[, j])), paste0(name, ".", of))
  })
  do.call(c, parts)
}

# Columns, and the names of those that are categories.
columns_of <- function(vectors, ordered, call) {
  names(vectors) <- make.unique(names(vectors))
  Map(function(values, name) column(values, name, ordered, call), vectors, names(vectors))
}

categories_of <- function(columns) names(columns)[vapply(columns, is.factor, NA)]

threads_of <- function(threads, call) {
  if (!is.numeric(threads) || length(threads) != 1 || is.na(threads) || threads != round(threads) || threads < 0 || threads > 4096)
    refuse(call, "'threads' is ", described(threads), "; it must be a whole number, 0 (all processors) to 4096.")
  as.integer(threads)
}

# The seed as a number; NULL: drawn from R's generator, so that set.seed() governs it.
seed_of <- function(seed, call) {
  if (is.null(seed)) return(sample.int(.Machine$integer.max, 1))
  if (!is.numeric(seed) || length(seed) != 1 || is.na(seed) || seed != round(seed) || seed < 0 || seed > 2^53)
    refuse(call, "'seed' is ", described(seed), "; it must be a whole number, 0 or larger, or NULL to draw one by R's generator.")
  seed
}

# Runs a job on columns, and returns its result as a list.
run <- function(job, word, columns, options, threads, call, report = NULL, model = NULL) {
  folder <- if (!is.null(report)) folder_of(report, call)
  categories <- categories_of(columns)
  if (length(categories) > 0) options <- c(options, categories = listed(categories))
  arguments <- list(job = job, word = word, columns = columns, options = c(options, na = "none"),
                    threads = threads_of(threads, call), report = folder, model = model)
  found <- .Call(circe_r_json, checked(.Call(circe_r_job, arguments), job, call))
  warn_of(found$warnings, job)
  found
}

folder_of <- function(report, call) {
  if (!is.character(report) || length(report) != 1 || is.na(report) || !nzchar(report))
    refuse(call, "'report' is ", described(report), "; it must be the path of a folder.")
  report <- path.expand(report)
  if (!dir.exists(report) && !dir.create(report, recursive = TRUE, showWarnings = FALSE))
    refuse(call, "the folder '", report, "' cannot be made.", status = "write")
  report
}
