# Takes x, z and y from a formula x ~ z | y, or from vectors, matrices and data frames: complete rows of one table.

# The parts of x ~ z | y as lists of terms. Several variables are joined by +.
parts_of <- function(formula, call) {
  shape <- "; write x ~ z | y (is x independent of z given y), x1 + x2 ~ z | y1 + y2, or x ~ z without a condition."
  if (length(formula) != 3) refuse(call, "the formula has no left side", shape)
  right <- formula[[3]]
  has_bar <- is.call(right) && identical(right[[1]], as.name("|"))
  parts <- list(x = formula[[2]], z = if (has_bar) right[[2]] else right, y = if (has_bar) right[[3]])
  lapply(parts[c("x", "z", if (has_bar) "y")], function(part) {
    if ("|" %in% all.names(part)) refuse(call, "the formula has more than one |", shape)
    terms_of(part, call)
  })
}

# The terms of a + b + c. Refuses everything that is not a list of variables.
terms_of <- function(part, call) {
  if (is.call(part) && identical(part[[1]], as.name("("))) return(terms_of(part[[2]], call))
  if (is.call(part) && identical(part[[1]], as.name("+")) && length(part) == 3)
    return(c(terms_of(part[[2]], call), terms_of(part[[3]], call)))
  if (is.numeric(part)) refuse(call, "the formula contains the number ", part, "; there is no intercept here. Leave it out.")
  if (is.call(part) && as.character(part[[1]])[1] %in% c("*", ":", "^", "-", "/", "%in%"))
    refuse(call, "the formula contains ", deparse1(part), "; join variables by +, or write I(", deparse1(part), ") to compute with them.")
  list(part)
}

# `.` in a part stands for all columns of data that the other parts do not name.
without_dots <- function(parts, data, call) {
  dot <- vapply(parts, function(part) any(vapply(part, identical, NA, as.name("."))), NA)
  if (!any(dot)) return(parts)
  if (sum(dot) > 1) refuse(call, "the formula contains . more than once.")
  if (!is.data.frame(data)) refuse(call, "the formula contains . , which needs 'data' to be a data frame.")
  named <- unlist(lapply(parts, function(part) lapply(part, all.vars)))
  rest <- lapply(setdiff(names(data), named), as.name)
  if (length(rest) == 0) refuse(call, "the formula contains . , but it names every column of 'data'.")
  parts[[which(dot)]] <- c(Filter(function(term) !identical(term, as.name(".")), parts[[which(dot)]]), rest)
  parts
}

# The caller's call of model.frame, with its data, subset, weights and na.action.
frame_of <- function(parts, formula, call, environment) {
  every <- unlist(parts, recursive = FALSE, use.names = FALSE)
  one <- Reduce(function(a, b) as.call(list(as.name("+"), a, b)), every)
  frame <- call[c(1L, match(c("data", "subset", "weights", "na.action"), names(call), 0L))]
  frame[[1L]] <- quote(stats::model.frame)
  frame$formula <- as.formula(as.call(list(as.name("~"), one)), env = environment(formula))
  frame$drop.unused.levels <- TRUE
  eval(frame, environment)
}

variables_of_formula <- function(formula, data, call, environment) {
  parts <- without_dots(parts_of(formula, call), data, call)
  frame <- frame_of(parts, formula, call, environment)
  labels <- lapply(parts, function(part) unique(vapply(part, function(term) label_of(term), "")))
  shared <- intersect(labels$x, c(labels$z, labels$y))
  if (length(shared) > 0) refuse(call, "'", shared[1], "' is on both sides of the formula.")
  twice <- intersect(labels$z, labels$y)
  if (length(twice) > 0) refuse(call, "'", twice[1], "' is on both sides of the |.")
  variables <- lapply(labels, function(names) flat(frame[names]))
  list(variables = variables, weights = model.weights(frame), dropped = length(attr(frame, "na.action")),
       labels = lapply(labels, paste, collapse = ", "))
}

# As model.frame names its columns.
label_of <- function(term) if (is.name(term)) as.character(term) else paste(deparse(term, 500L), collapse = "")

named_so <- function(labels, verb = "and") {
  paste0(labels$x, " ", verb, " ", labels$z, if (!is.null(labels$y)) paste0(" given ", labels$y))
}

# A vector, a matrix or a data frame as named vectors.
vectors_of <- function(values, name, call) {
  if (is.data.frame(values)) {
    if (ncol(values) == 0) refuse(call, "'", name, "' has no column.", status = "shape")
    return(flat(values))
  }
  if (is.null(values) || is.list(values) || is.function(values) || length(dim(values)) > 2)
    refuse(call, "'", name, "' is ", described(values), "; it must be a vector, a factor, a matrix or a data frame.")
  frame <- list(values)
  names(frame) <- name
  parts <- flat(frame)
  if (length(dim(values)) == 2 && !is.null(colnames(values))) names(parts) <- colnames(values)
  parts
}

variables_of_values <- function(x, z, y, weights, na.action, labels, call) {
  given <- list(x = x, z = z)
  if (!is.null(y)) given$y <- y
  variables <- Map(function(values, name) vectors_of(values, name, call), given, names(given))
  rows <- vapply(variables, function(v) length(v[[1]]), 0L)
  if (!is.null(weights)) rows <- c(rows, weights = length(weights))
  if (any(rows != rows[1]))
    refuse(call, "the variables must have the same rows: ", paste0(names(rows), " has ", rows, collapse = ", "), ".", status = "shape")
  dropped <- 0L
  complete <- do.call(complete.cases, c(lapply(unlist(variables, recursive = FALSE, use.names = FALSE), plain), list(weights)[!is.null(weights)]))
  if (!all(complete)) {
    action <- match.fun(na.action)
    if (identical(action, na.fail)) refuse(call, "row ", which(!complete)[1], " has a missing value (", sum(!complete), " of ",
                                           length(complete), " rows have one); na.action = na.omit leaves such rows out.", status = "value")
    if (!identical(action, na.pass)) { # table_of refuses what is left
      variables <- lapply(variables, lapply, function(v) v[complete])
      weights <- weights[complete]
      dropped <- sum(!complete)
    }
  }
  list(variables = variables, weights = weights, dropped = dropped, labels = labels)
}

plain <- function(values) if (is.object(values) && !is.factor(values)) unclass(values) else values

# The columns of one table, with the weights of its rows, and the options that say which is what.
table_of <- function(found, ordered, call) {
  vectors <- do.call(c, unname(found$variables))
  columns <- columns_of(vectors, ordered, call)
  if (length(columns[[1]]) == 0)
    refuse(call, "no row is left", if (found$dropped > 0) paste0(": all ", found$dropped, " have a missing value"), ".", status = "shape")
  for (name in names(columns)) {
    if (anyNA(columns[[name]]))
      refuse(call, "'", name, "' is missing in row ", which(is.na(columns[[name]]))[1],
             "; na.action = na.omit leaves such rows out.", status = "value")
  }
  ends <- cumsum(lengths(found$variables))
  options <- mapply(function(first, last) listed(names(columns)[first:last]), c(0, ends[-length(ends)]) + 1, ends)
  names(options) <- names(found$variables)
  if (!is.null(found$weights)) {
    if (!is.numeric(found$weights) && !is.logical(found$weights))
      refuse(call, "'weights' is ", described(found$weights), "; it must contain numbers.")
    name <- make.unique(c(names(columns), "(weights)"))[length(columns) + 1]
    columns[[name]] <- as.double(found$weights)
    options <- c(options, weights = name)
  }
  list(columns = columns, options = options)
}
