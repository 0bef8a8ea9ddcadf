# A stateful R context, driven over descriptor 3.
#
# R cannot open a socket that it has, so two programs carry the bytes: messages of
# fields that end in a zero byte come in, frames of JSON go out. Output is gathered
# for each top-level expression, because R writes a line in several pieces. What
# programs print goes to descriptors 1 and 2 themselves.
function(input) {
  output <- pipe("trap '' INT; exec cat >&3", "wb")
  count <- 0L

  quote_text <- function(text) {
    text <- enc2utf8(paste(text, collapse = "\n"))
    if (!validUTF8(text)) text <- iconv(text, "latin1", "UTF-8")
    text <- gsub("\\", "\\\\", text, fixed = TRUE)
    text <- gsub("\"", "\\\"", text, fixed = TRUE)
    for (code in c(1:31, 127)) {
      text <- gsub(intToUtf8(code), sprintf("\\u%04x", code), text, fixed = TRUE)
    }
    paste0("\"", text, "\"")
  }

  say <- function(...) {
    body <- charToRaw(paste0("{", ..., "}"))
    writeBin(c(writeBin(length(body), raw(), endian = "little"), body), output)
    flush(output)
  }

  stream <- function(kind, text) {
    if (nzchar(text)) say("\"ev\":\"", kind, "\",\"text\":", quote_text(text))
  }

  shown <- function(event, mime, value) {
    say("\"ev\":\"", event, "\",\"data\":{\"", mime, "\":", quote_text(value), "}")
  }

  # What `code` prints, sent when it is over, also if it fails.
  gathered <- function(code, send) {
    taken <- file(open = "w+b")
    sink(taken)
    on.exit({
      sink()
      flush(taken)
      text <- paste(readLines(taken, warn = FALSE), collapse = "\n")
      close(taken)
      send(text)
    })
    code
  }

  with_end <- function(send) function(text) if (nzchar(text)) send(paste0(text, "\n"))

  # Plots of the cell, as pictures.
  folder <- tempfile("plots")
  options(device = function(...) {
    dir.create(folder, FALSE)
    grDevices::png(file.path(folder, "%03d.png"), width = 800, height = 600, type = "cairo")
  })
  show_plots <- function() {
    while (grDevices::dev.cur() > 1) grDevices::dev.off()
    for (name in list.files(folder, full.names = TRUE)) {
      shown("display", "image/png", system2("base64", c("-w0", shQuote(name)), stdout = TRUE))
    }
    unlink(folder, recursive = TRUE)
  }

  run <- function(code) {
    expressions <- parse(text = code, keep.source = FALSE)
    for (place in seq_along(expressions)) {
      gathered(value <- withVisible(eval(expressions[[place]], globalenv())), with_end(function(text) stream("stdout", text)))
      if (value$visible) {
        assign(".Last.value", value$value, envir = globalenv())
        event <- if (place == length(expressions)) "result" else "display"
        gathered(print(value$value), function(text) shown(event, "text/plain", text))
      }
    }
  }

  failed <- function(name, value) {
    say("\"ev\":\"error\",\"name\":", quote_text(name), ",\"value\":", quote_text(value),
      ",\"traceback\":[", quote_text(paste0(name, ": ", value)), "]")
    FALSE
  }

  cell <- function(id, code, variables) {
    before <- Sys.getenv(names(variables), unset = NA, names = TRUE)
    if (length(variables)) do.call(Sys.setenv, as.list(variables))
    ok <- tryCatch({
      run(code)
      TRUE
    }, error = function(error) failed(class(error)[1], conditionMessage(error)),
    interrupt = function(condition) failed("Interrupted", "the cell was interrupted"))
    tryCatch(show_plots(), error = function(error) NULL, interrupt = function(condition) NULL)
    Sys.unsetenv(names(before)[is.na(before)])
    kept <- before[!is.na(before)]
    if (length(kept)) do.call(Sys.setenv, as.list(kept))
    count <<- count + 1L
    say("\"ev\":\"done\",\"id\":", id, ",\"ok\":", if (ok) "true" else "false", ",\"count\":", count)
  }

  turn <- function() {
    size <- readBin(input, "integer", 1L, 4L, endian = "little")
    if (!length(size)) quit("no")
    bytes <- readBin(input, "raw", size)
    ends <- which(bytes == 0)
    starts <- c(1L, ends[-length(ends)] + 1L)
    fields <- vapply(seq_along(ends), function(at) {
      text <- rawToChar(bytes[seq_len(ends[at] - starts[at]) + starts[at] - 1L])
      Encoding(text) <- "UTF-8"
      text
    }, "")
    pairs <- matrix(fields[-(1:4)], nrow = 2)
    cell(fields[2], fields[3], structure(pairs[2, ], names = pairs[1, ]))
  }

  options(warn = 1)
  say("\"ev\":\"ready\",\"language\":\"r\",\"version\":\"", as.character(getRversion()), "\",\"pid\":", Sys.getpid())
  repeat tryCatch(turn(), interrupt = function(condition) NULL)
}
