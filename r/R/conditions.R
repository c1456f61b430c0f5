# Errors as conditions: class "circe_error", and one class per status of the library.

statuses <- c("argument", "shape", "value", "memory", "numeric", "rank", "io", "format", "unsupported", "cancelled", "device",
              "write")

refuse <- function(call, ..., status = "argument") {
  stop(structure(class = c(paste0("circe_error_", status), "circe_error", "error", "condition"),
                 list(message = paste0(...), call = call)))
}

# Returns a result of the library, or raises its error.
checked <- function(result, job, call) {
  if (!is.list(result) || !identical(names(result), c("status", "text"))) return(result)
  if (result$status == -1L) interrupted()
  status <- if (result$status %in% seq_along(statuses)) statuses[result$status] else "unknown"
  refuse(call, rows_from_one(in_words_of_r(result$text, job)), status = status)
}

# Does what R does on an interrupt: calls handlers of tryCatch(interrupt = ), or else ends the work.
interrupted <- function() {
  signalCondition(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
  if (!interactive()) stop("the user interrupted the work", call. = FALSE)
  invokeRestart("abort")
}

warn_of <- function(texts, job) {
  for (text in texts) warning(in_words_of_r(text, job), call. = FALSE)
}

# The library counts rows from 0.
rows_from_one <- function(text) {
  found <- gregexpr("(?<=\\brow )[0-9]+", text, perl = TRUE)
  regmatches(text, found) <- lapply(regmatches(text, found), function(rows) format_rows(rows))
  text
}

format_rows <- function(rows) vapply(as.numeric(rows) + 1, format, "", scientific = FALSE)
