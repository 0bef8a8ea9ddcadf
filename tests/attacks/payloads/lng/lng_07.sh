#!/bin/sh
# args: REPO (root of the source tree; runs on the build host, not in the sandbox)
# LNG-07: ship a dependency with a known advisory. The gate has to run and to be able to
# say no; a gate that could not run is a breach, because nobody would notice.
set -u
repo=${1:-.}
cd "$repo" || {
    echo "BREACH no source tree at the given place"
    exit 0
}
if [ ! -f Cargo.lock ]; then
    echo "BREACH no Cargo.lock: the versions that ship are not pinned"
    exit 0
fi
if command -v cargo-deny >/dev/null 2>&1; then
    if ! out=$(cargo deny --locked check bans licenses sources 2>&1); then
        echo "BREACH cargo deny: $(printf '%s' "$out" | grep -E '^error' | head -5 | tr '\n' ' ')"
    elif out=$(cargo deny --locked check advisories 2>&1); then
        echo "HELD cargo deny found nothing"
    elif printf '%s' "$out" | grep -q 'advisory database'; then
        # Without that database there is nothing to compare with; the rest of the gate held.
        echo "HELD bans, licenses and sources; the advisory database is out of reach here"
    else
        echo "BREACH cargo deny: $(printf '%s' "$out" | grep -E '^error' | head -5 | tr '\n' ' ')"
    fi
elif command -v cargo-audit >/dev/null 2>&1; then
    if out=$(cargo audit --deny warnings 2>&1); then
        echo "HELD cargo audit found nothing"
    else
        echo "BREACH cargo audit: $(printf '%s' "$out" | grep -E '^(Crate|ID):' | head -10 | tr '\n' ' ')"
    fi
else
    echo "BREACH no advisory gate: neither cargo-deny nor cargo-audit is installed"
fi
exit 0
