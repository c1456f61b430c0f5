# circe_measure: values as the golden cases have them (CIRCE_GOLDEN names their folder), forms, refusals.
source("support.R")
d <- people()

guilty <- circe_measure(guilty ~ z | y, d)
stopifnot(as.numeric(guilty) > 3 * as.numeric(circe_measure(innocent ~ z | y, d)), identical(names(guilty$value), "circe"),
          identical(as.numeric(guilty), as.numeric(circe_measure(d$guilty, d$z, d$y))))
every <- circe_measure(guilty ~ z | y, d, "all")$value
stopifnot(length(every) >= 8, !anyDuplicated(names(every)), !anyNA(every))
invisible(capture.output(print(guilty)))
stopifnot(as.numeric(circe_measure(by_group ~ group | y, d, "kpc")) > 0.1)
check_refused(circe_measure(guilty ~ z | y, d, "circle"), "it must be one of \"circe\"")
check_refused(circe_measure(guilty ~ z, d, "circe"), "y")
check_refused(circe_measure(guilty ~ z | y, d, estimator = "best"), "'estimator' is \"best\"; it must be one of \"biased\"")

# ---- weights: those of repeated rows, to 1e-9, by formula and by values
d$w <- rep(0:3, length.out = 300)
copies <- d[rep(1:300, d$w), ]
for (how in list(list("hsic", estimator = "biased"), list("kpc", sigma2_y = 1))) {
  of <- function(...) as.numeric(do.call(circe_measure, c(list(...), how[[1]], how[-1], sigma2_x = 1, sigma2_z = 1)))
  weighted <- of(guilty ~ z | y, d, weights = d$w)
  check_near(weighted, of(guilty ~ z | y, copies), 1e-9, how[[1]])
  stopifnot(identical(weighted, of(d$guilty, d$z, d$y, weights = d$w)), weighted != of(guilty ~ z | y, d))
}
stopifnot(identical(as.numeric(circe_measure(guilty ~ z | y, d, "gcm", weights = w)),
                    as.numeric(circe_measure(guilty ~ z | y, d, "gcm", weights = 2 * w))))
check_refused(circe_measure(guilty ~ z | y, d, "kpc", weights = -w), "at least 0")
check_refused(circe_measure(d$guilty, d$z, d$y, "kpc", weights = d$w[-1]), "weights has 299")
check_refused(circe_measure(guilty ~ z | y, d, "kpc", weights = as.character(w)), "weights")

# ---- the dense formulas, in float64: 1e-9, as in C
golden <- Sys.getenv("CIRCE_GOLDEN")
read_npy <- function(path) {
  size <- file.size(path)
  bytes <- readBin(path, "raw", size)
  start <- 10 + as.integer(bytes[9]) + 256 * as.integer(bytes[10])
  header <- rawToChar(bytes[11:start])
  stopifnot(grepl("'<f8'", header), grepl("'fortran_order': False", header))
  rows <- as.integer(sub(".*'shape': *\\(([0-9]+).*", "\\1", header))
  values <- readBin(bytes[(start + 1):size], "double", (size - start) / 8, endian = "little")
  matrix(values, nrow = rows, byrow = TRUE)
}
field <- function(text, name) { # the first of that name
  found <- regmatches(text, regexpr(paste0('"', name, '": *"?[^",}\n]*'), text))
  sub('.*: *"?', "", found)
}
for (case in if (nzchar(golden)) list.dirs(golden, recursive = FALSE)) {
  text <- paste(readLines(file.path(case, "expected.json"), warn = FALSE), collapse = "\n")
  number <- function(name) as.numeric(field(text, name))
  x <- read_npy(file.path(case, "x.npy"))
  y <- read_npy(file.path(case, "y.npy"))
  z <- read_npy(file.path(case, "z.npy"))
  for (kind in c("hsic_biased", "hsic_unbiased", "hscic", "kci")) {
    measure <- sub("_.*", "", kind)
    options <- list(x, z, y, measure, kernel_x = field(text, "kernel_x"), kernel_z = field(text, "kernel_z"), method = "dense",
                    sigma2_x = number("sigma2_x"), sigma2_z = number("sigma2_z"))
    if (measure == "hsic") options <- c(options[names(options) != "method"], estimator = sub(".*_", "", kind))
    else options <- c(options, kernel_y = field(text, "kernel_y"), sigma2_y = number("sigma2_y"), ridge = number("ridge"))
    if (options$kernel_x == "linear") options$sigma2_x <- NULL
    check_near(as.numeric(do.call(circe_measure, options)), number(kind), 1e-9, paste(basename(case), kind))
  }
}
