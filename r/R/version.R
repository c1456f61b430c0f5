circe_version <- function() .Call(circe_r_version)
