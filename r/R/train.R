# Training of predictors whose output does not depend on some columns given others, and their predictions.

circe_train <- function(data, features, target, invariant_to = NULL, given = NULL, gamma = NULL, ..., row_weights = NULL,
                        na.action = getOption("na.action", "na.omit"), report = NULL, seed = 0,
                        threads = getOption("circe.threads", 0L)) {
  call <- match.call()
  frame_or_refuse(data, call)
  roles <- list(features = features, target = target, invariant_to = invariant_to, given = given, row_weights = row_weights)
  roles <- roles[!vapply(roles, is.null, NA)]
  wanted <- unique(unlist(Map(function(names, role) columns_named(names, role, data, call), roles, names(roles))))
  complete <- complete_rows(data[wanted], na.action, call)
  columns <- columns_of(as.list(data[complete, wanted, drop = FALSE]), "categories", call)
  texts <- option_texts("train", c(list(...), roles, list(gamma = gamma, seed = seed_of(seed, call))), call)
  path <- tempfile("circe-", fileext = ".safetensors")
  on.exit(unlink(path))
  result <- run("train", NULL, columns, texts, threads, call, report = report, model = path)
  structure(list(model = readBin(path, "raw", file.size(path)), features = features, target = target,
                 dropped = sum(!complete), results = result),
            class = "circe_model")
}

predict.circe_model <- function(object, newdata, type = c("response", "class", "probabilities"), ...,
                                na.action = na.pass, threads = getOption("circe.threads", 0L)) {
  call <- called("predict", match.call())
  type <- match.arg(type)
  if (missing(newdata)) refuse(call, "'newdata' is needed: a data frame with the columns ", paste(object$features, collapse = ", "), ".")
  frame_or_refuse(newdata, call)
  wanted <- columns_named(object$features, "features", newdata, call)
  complete <- complete_rows(newdata[wanted], na.action, call)
  columns <- columns_of(as.list(newdata[complete, wanted, drop = FALSE]), "categories", call)
  found <- predictions(object, columns, option_texts("predict", list(...), call), threads, call)
  if (is.na(found$target)) {
    if (type != "response") refuse(call, "type is \"", type, "\", but the target of this model is a number; use \"response\".")
    return(if (ncol(found$values) == 1) as.vector(found$values) else found$values)
  }
  if (type == "probabilities") return(found$values)
  classes <- colnames(found$values)
  best <- apply(found$values, 1, function(p) if (anyNA(p)) NA_integer_ else which.max(p))
  factor(classes[best], levels = classes)
}

predictions <- function(object, columns, texts, threads, call) {
  path <- tempfile("circe-", fileext = ".safetensors")
  on.exit(unlink(path))
  writeBin(object$model, path)
  arguments <- list(columns = columns, options = c(texts, model = path, na = "none", missing = "empty"), model = path,
                    threads = threads_of(threads, call))
  categories <- categories_of(columns)
  if (length(categories) > 0) arguments$options <- c(arguments$options, categories = listed(categories))
  found <- checked(.Call(circe_r_predict, arguments), "predict", call)
  warn_of(found$warnings, "predict")
  found$values[is.nan(found$values)] <- NA
  found
}

print.circe_model <- function(x, digits = 4, ...) {
  settings <- x$results$settings
  cat("\n\tA predictor of ", paste(x$target, collapse = ", "), " from ", paste(x$features, collapse = ", "), "\n\n", sep = "")
  cat("network: ", settings$net, ", ", x$results$parameters, " parameters, ", x$results$epochs, " epochs\n", sep = "")
  if (length(settings$invariant_to) > 0)
    cat("invariant to ", paste(settings$invariant_to, collapse = ", "), " given ", paste(settings$given, collapse = ", "), " (",
        settings$regularizer, ", gamma ", settings$gamma, ")\n", sep = "")
  cat("on the validation rows:\n")
  errors <- Filter(function(value) is.numeric(value) && length(value) == 1, x$results$error)
  print(signif(unlist(errors), digits))
  if (x$dropped > 0) cat(left_out(x$dropped), "\n", sep = "")
  cat("\n")
  invisible(x)
}
