# An interrupt ends a long call soon, and calls that fail keep no memory.
library(circe)
set.seed(1)
n <- 3000
y <- rnorm(n)
z <- y + rnorm(n)
x <- y + rnorm(n)

# ---- interrupts: from outside, after a second
system(paste("(sleep 1; kill -INT", Sys.getpid(), ") &"))
start <- proc.time()[["elapsed"]]
found <- tryCatch(circe_test(x, z, y, calibrate = 100000), interrupt = function(e) "interrupted")
took <- proc.time()[["elapsed"]] - start
stopifnot(identical(found, "interrupted"), took > 0.5, took < 3) # a second, and a test or two of 3,000 rows
stopifnot(circe_test(x[1:200], z[1:200], y[1:200])$p.value > 0) # the next call is none the worse

# ---- memory: a table of 8 MB a call, which is refused after it was made
resident <- function() {
  lines <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", grep("^VmRSS", lines, value = TRUE))) / 1024
}
if (file.exists("/proc/self/status")) {
  wide <- as.data.frame(matrix(rnorm(1e6), ncol = 100))
  fail <- function() try(circe_test(wide[1:50], wide[51:100], null = "normal"), silent = TRUE)
  for (i in 1:5) stopifnot(inherits(fail(), "try-error"))
  gc()
  before <- resident()
  for (i in 1:40) fail()
  gc()
  cat("40 refusals took", resident() - before, "MB\n")
  stopifnot(resident() - before < 100) # 320 MB where tables were kept
}
