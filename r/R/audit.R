# Audits: does a prediction depend on sensitive attributes, once the outcome is known?

circe_audit <- function(data, prediction, target, sensitive, ..., given = NULL, weights = NULL,
                        na.action = getOption("na.action", "na.omit"), report = NULL, seed = 0, threads = getOption("circe.threads", 0L)) {
  call <- match.call()
  frame_or_refuse(data, call)
  roles <- list(prediction = prediction, target = target, sensitive = sensitive, given = given, weights = weights)
  roles <- roles[!vapply(roles, is.null, NA)]
  wanted <- unique(unlist(Map(function(names, role) columns_named(names, role, data, call), roles, names(roles))))
  complete <- complete_rows(data[wanted], na.action, call)
  columns <- columns_of(as.list(data[complete, wanted, drop = FALSE]), "categories", call)
  texts <- option_texts("audit", c(list(...), roles, list(seed = seed_of(seed, call))), call)
  result <- run("audit", NULL, columns, texts, threads, call, report = report)
  findings <- do.call(rbind, lapply(result$findings, finding_row))
  structure(list(findings = findings, gaps = gaps_of(result$findings), groups = groups_of(result$findings),
                 quality = quality_of(result$quality), checks = checks_of(result$checks), n = result$n, dropped = sum(!complete),
                 target = target, details = result),
            class = "circe_audit")
}

frame_or_refuse <- function(data, call) {
  if (!is.data.frame(data)) refuse(call, "'data' is ", described(data), "; it must be a data frame.")
  if (nrow(data) == 0) refuse(call, "'data' has no row.", status = "shape")
}

# The columns that a role names; race+sex is one attribute of two columns.
columns_named <- function(names, role, data, call) {
  if (!is.character(names) || length(names) == 0 || anyNA(names))
    refuse(call, "'", role, "' is ", described(names), "; it must be names of columns of 'data'.")
  parts <- unlist(lapply(names, function(name) if (name %in% base::names(data)) name else strsplit(name, "+", fixed = TRUE)[[1]]))
  unknown <- setdiff(parts, base::names(data))
  if (length(unknown) > 0)
    refuse(call, "'", role, "' names '", unknown[1], "', which is not a column of 'data'. It has ",
           paste0("'", utils::head(base::names(data), 12), "'", collapse = ", "), if (ncol(data) > 12) ", ...", ".")
  matrices <- Filter(function(name) !is.null(dim(data[[name]])), parts)
  if (length(matrices) > 0) refuse(call, "column '", matrices[1], "' of 'data' is a matrix; give each of its columns a name.")
  parts
}

complete_rows <- function(frame, na.action, call) {
  complete <- complete.cases(lapply(frame, plain))
  action <- match.fun(na.action)
  if (all(complete) || identical(action, na.pass)) return(rep(TRUE, length(complete)))
  if (identical(action, na.fail))
    refuse(call, "row ", which(!complete)[1], " has a missing value; na.action = na.omit leaves such rows out.", status = "value")
  if (!any(complete)) refuse(call, "no row is left: all have a missing value.", status = "shape")
  complete
}

number_or_na <- function(value) if (is.null(value)) NA_real_ else value

finding_row <- function(finding) {
  effect <- finding$effects$kpc
  above <- finding$kpc_above_chance
  data.frame(prediction = finding$prediction, attribute = finding$attribute, decision = finding$decision,
             p.value = number_or_na(finding$p_value), p.adjusted = number_or_na(finding$p_adjusted), trust = finding$trust,
             kpc.above.chance = number_or_na(above$value), kpc.above.chance.lower = number_or_na(above$lower),
             kpc.above.chance.upper = number_or_na(above$upper), kpc = number_or_na(effect$value), kpc.lower = number_or_na(effect$lower), kpc.upper = number_or_na(effect$upper),
             kpc.chance = number_or_na(effect$chance),
             verdict = finding$verdict)
}

gaps_of <- function(findings) {
  rows <- lapply(findings, function(finding) lapply(finding$gaps, function(gap) {
    data.frame(prediction = finding$prediction, attribute = finding$attribute, of = gap$of, groups = gap$groups,
               gap = number_or_na(gap$gap), lower = number_or_na(gap$lower), upper = number_or_na(gap$upper), high = gap$high,
               low = gap$low, chance = number_or_na(gap$chance))
  }))
  do.call(rbind, unlist(rows, recursive = FALSE))
}

groups_of <- function(findings) {
  rows <- lapply(findings, function(finding) {
    groups <- finding$groups
    metrics <- lapply(groups$metrics, `[[`, "value")
    cbind(data.frame(prediction = finding$prediction, attribute = finding$attribute, group = groups$labels, rows = groups$rows,
                     compared = groups$compared), as.data.frame(metrics))
  })
  do.call(rbind_filled, rows)
}

# Binds rows of frames that may lack columns of each other.
rbind_filled <- function(...) {
  frames <- list(...)
  every <- unique(unlist(lapply(frames, names)))
  do.call(rbind, lapply(frames, function(frame) {
    frame[setdiff(every, names(frame))] <- NA_real_
    frame[every]
  }))
}

quality_of <- function(quality) {
  rows <- lapply(quality, function(one) {
    metrics <- setdiff(names(one), "prediction")
    of <- function(which) vapply(one[metrics], function(metric) number_or_na(metric[[which]]), 0)
    data.frame(prediction = one$prediction, metric = metrics, value = of("value"), lower = of("lower"), upper = of("upper"))
  })
  found <- do.call(rbind, rows)
  rownames(found) <- NULL
  found
}

checks_of <- function(checks) {
  do.call(rbind, lapply(checks, function(check) {
    data.frame(condition = check$condition, prediction = check$prediction,
               attribute = if (is.null(check$attribute)) NA_character_ else check$attribute, value = number_or_na(check$value),
               limit = check$limit, failed = check$failed)
  }))
}

as.data.frame.circe_audit <- function(x, ...) x$findings

print.circe_audit <- function(x, digits = 3, ...) {
  cat("\n\tAudit: does a prediction depend on an attribute, given ", x$target, "?\n\n", sep = "")
  cat("rows: ", x$n, if (x$dropped > 0) paste0(" (", x$dropped, " with missing values left out)"), "\n\n", sep = "")
  shown <- x$findings[c("prediction", "attribute", "decision", "p.adjusted", "kpc.above.chance", "trust")]
  shown$p.adjusted <- format.pval(shown$p.adjusted, digits = digits, eps = 1e-12)
  shown$kpc.above.chance <- signif(shown$kpc.above.chance, digits)
  print(shown, row.names = FALSE)
  cat("\n")
  for (i in seq_len(nrow(x$findings))) cat(strwrap(x$findings$verdict[i], exdent = 2), sep = "\n")
  failed <- if (!is.null(x$checks)) x$checks[x$checks$failed, , drop = FALSE]
  if (!is.null(failed) && nrow(failed) > 0) {
    cat("\nLimits exceeded:\n")
    print(failed, row.names = FALSE)
  }
  cat("\n")
  invisible(x)
}
