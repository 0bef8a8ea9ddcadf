#!/bin/sh
# Counts the answers and the slowest paths in a web server's log.
set -eu
# The same order of lines wherever it runs.
export LC_ALL=C

log() {
    cat <<'LOG'
200 /index.html 12
200 /about.html 8
404 /missing.html 3
200 /index.html 15
500 /report 910
200 /report 640
404 /favicon.ico 2
LOG
}

echo "answers:"
log | cut -d' ' -f1 | sort | uniq -c | sort -rn | sed 's/^ */  /'

echo "slowest:"
log | sort -k3,3nr | head -n 3 | while read -r status path millis; do
    echo "  $path took $millis ms and answered $status"
done
