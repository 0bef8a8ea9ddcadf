# Reads the runtime from descriptor 3 and starts it. Given to `bash -c`.
#
# Only an interactive shell can give up a command half-way and go on, which is
# what an interrupt asks for. Its standard input is a pipe to itself: it reads
# the lines that the runtime writes there.
IFS= read -r -d '' -u 3 source || exit 1
exec 5>&2 2>/dev/null 6< <(printf %s "$source") 0<> <(:)
unset source
exec "$BASH" --noprofile --noediting --rcfile /dev/fd/6 -i
