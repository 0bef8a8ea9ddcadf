#!/bin/sh
# args: [directory in which the hostile repository is left for the host to touch]
# LNG-04: a git repository whose hooks, fsmonitor, submodules and file names run code
# in whoever handles it. Inside the sandbox that is allowed; the marker must never be
# made by anybody else. The harness reads the workspace afterwards and looks for
# markers on the host.
set -u
say() { printf '%s\n' "$*"; }

if ! command -v git >/dev/null 2>&1; then
    say "HELD git is not in this image, nothing ran"
    exit 0
fi

base=${1:-}
keep=1
if [ -z "$base" ]; then
    keep=0
    for d in /workspace /tmp /dev/shm; do
        if [ -d "$d" ] && [ -w "$d" ]; then
            base=$d
            break
        fi
    done
fi
dir=$base/lng04
rm -rf "$dir"
mkdir -p "$dir" || {
    say "HELD no writable directory, nothing ran"
    exit 0
}
marker=$dir/marker
: >"$marker"

# The hostile program tells who ran it and where, nothing more.
cat >"$dir/evil.sh" <<EVIL
#!/bin/sh
echo "uid=\$(id -u) by=\$1 pidns=\$(readlink /proc/self/ns/pid)" >>"$marker"
EVIL
chmod 755 "$dir/evil.sh"

HOME=$dir
GIT_CONFIG_NOSYSTEM=1
GIT_TERMINAL_PROMPT=0
export HOME GIT_CONFIG_NOSYSTEM GIT_TERMINAL_PROMPT
g() { git -c user.name=a -c user.email=a@b -c protocol.file.allow=always "$@" >/dev/null 2>&1; }

src=$dir/src
g init -q "$src"
cd "$src" || exit 0
echo x >plain
# Names that a careless listing or a careless shell would take for something else.
printf 'x' >'-rf' 2>/dev/null
printf 'x' >"$(printf 'new\nline')" 2>/dev/null
printf 'x' >"$(printf 'esc\033[2Jape')" 2>/dev/null
# shellcheck disable=SC2016
printf 'x' >'$(touch pwned)' 2>/dev/null
ln -s /etc/passwd link-out
ln -s ../../../../../../etc link-dir
# A submodule path that starts like an option, and one that climbs out.
cat >.gitmodules <<'MOD'
[submodule "x"]
	path = x
	url = -u./evil
[submodule "../../../../../../tmp/lng04-climb"]
	path = climb
	url = ./src
MOD
g add -A
g commit -q -m hostile

clone=$dir/clone
mkdir -p "$dir/template/hooks"
for h in post-checkout post-merge pre-commit; do
    printf '#!/bin/sh\nexec "%s/evil.sh" %s\n' "$dir" "$h" >"$dir/template/hooks/$h"
    chmod 755 "$dir/template/hooks/$h"
done
g clone -q --template="$dir/template" "$src" "$clone"
cd "$clone" 2>/dev/null || {
    say "HELD git could not clone here, nothing ran"
    rm -rf "$dir"
    exit 0
}
g submodule update --init --recursive
# A repository that runs a program on every status: the trap for the host.
g config core.fsmonitor "$dir/evil.sh fsmonitor"
g config core.pager "$dir/evil.sh pager"
g config core.sshCommand "$dir/evil.sh ssh"
g config diff.external "$dir/evil.sh diff"
g status
echo y >>plain
g diff

me=$(id -u)
bad=""
while read -r line; do
    case $line in
    "uid=$me "*) ;;
    *) bad="$bad a program of the repository ran as [$line];" ;;
    esac
done <"$marker"
count=$(wc -l <"$marker" | tr -d ' ')
[ -e /tmp/lng04-climb ] && bad="$bad a submodule climbed out of its tree;"
[ -e "$clone/pwned" ] && bad="$bad a file name was run;"
say "NOTE programs of the repository ran $count times as uid $me in $(readlink /proc/self/ns/pid)"
[ "$me" = 0 ] && bad="$bad we run as root;"
cd /
if [ "$keep" = 0 ]; then
    rm -rf "$dir"
else
    say "NOTE repository left in $clone, markers in $marker"
fi
if [ -n "$bad" ]; then
    say "BREACH$bad"
else
    say "HELD everything ran inside, as our own uid only"
fi
exit 0
