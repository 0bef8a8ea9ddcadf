# Given to `sh -c`: takes the runtime's source, whose size is the second argument,
# from descriptor 3, and starts it with the Java that is the first one.
folder=$(mktemp -d) || exit 1
head -c "$2" <&3 >"$folder/Context.java" || exit 1
exec "$1" -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC --add-opens java.base/java.io=ALL-UNNAMED \
    "$folder/Context.java"
