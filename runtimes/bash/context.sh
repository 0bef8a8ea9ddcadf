# A stateful Bash context, driven over descriptor 3.
#
# The host sends fields that end in a zero byte, which is what `read` can take
# apart. Answers are frames of a length (four bytes, little endian) and JSON. What
# cells print goes to descriptors 1 and 2 themselves.
#
# Each cell is three lines on the shell's own input: run it, report it, and report
# it again in case that an interrupt struck while the second line began.

exec 2>&5 5>&- 6<&-
set +m +H +o history
set -E
unset HISTFILE
PS1= PS2=
declare -i __belljar_count=0 __belljar_status=0
declare -a __belljar_restore=()
__belljar_id= __belljar_code= __belljar_queued= __belljar_hit= __belljar_trap=
__belljar_exit= __belljar_stderr= __belljar_strict= __belljar_failed=

__belljar_say() {
    local LC_ALL=C __belljar_head
    printf -v __belljar_head '\\x%02x' $((${#1} & 255)) $((${#1} >> 8 & 255)) $((${#1} >> 16 & 255)) 0
    printf "$__belljar_head%s" "$1" >&3
}

__belljar_take() {
    # The host is gone: nobody can want anything any more.
    IFS= read -r -d '' -u 3 "$1" || builtin exit 0
}

# Reports the cell that ended, waits for the next one and queues it.
__belljar_next() {
    __belljar_status=$?
    [[ -z $__belljar_queued ]] || return $__belljar_status
    __belljar_trap=$(trap -p INT)
    trap __belljar_hit=1 INT
    # What fails from here on is not the cell's.
    [[ $- == *e* ]] && __belljar_strict=1 || __belljar_strict=
    set +e
    PS1= PS2=
    [[ -n $__belljar_id ]] && __belljar_report
    local __belljar_op __belljar_total
    __belljar_take __belljar_op
    __belljar_hit=
    __belljar_take __belljar_id
    __belljar_take __belljar_code
    __belljar_take __belljar_total
    while ((__belljar_total-- > 0)); do
        __belljar_lend
    done
    # One compound command, so that an error which gives up a command gives up
    # all of the cell.
    __belljar_code="{ __belljar_begin; $__belljar_code"$'\n}'
    __belljar_queued=1
    printf '%s\n' '__belljar_queued=; eval "$__belljar_code" </dev/null 3>&-' \
        __belljar_next __belljar_next >&0
    return $__belljar_status
}

__belljar_report() {
    local __belljar_each __belljar_ok=true
    [[ -z $__belljar_stderr ]] || exec 2>&"$__belljar_stderr" {__belljar_stderr}>&-
    [[ -z $__belljar_exit ]] || __belljar_status=$__belljar_exit
    __belljar_stderr= __belljar_exit=
    for __belljar_each in "${__belljar_restore[@]}"; do
        eval "$__belljar_each"
    done 2>/dev/null
    __belljar_restore=()
    if ((__belljar_status != 0)); then
        __belljar_ok=false
        __belljar_say '{"ev":"error","name":"ExitStatus","value":"'$__belljar_status'","traceback":[]}'
    fi
    __belljar_count+=1
    __belljar_say '{"ev":"done","id":'$__belljar_id',"ok":'$__belljar_ok',"count":'$__belljar_count'}'
    __belljar_id=
}

# Takes one variable of the cell's environment, and notes how to undo it.
__belljar_lend() {
    local __belljar_name __belljar_value __belljar_undo
    __belljar_take __belljar_name
    __belljar_take __belljar_value
    [[ $__belljar_name =~ ^[a-zA-Z_][a-zA-Z0-9_]*$ && $__belljar_name != __belljar_* ]] || return 0
    __belljar_undo="unset -v $__belljar_name"
    if [[ -v $__belljar_name ]]; then
        printf -v __belljar_undo '%s=%q' "$__belljar_name" "${!__belljar_name}"
        [[ $(declare -p "$__belljar_name") == 'declare -'*([!\ ])x* ]] ||
            __belljar_undo+="; export -n $__belljar_name"
    fi
    export "$__belljar_name=$__belljar_value" 2>/dev/null && __belljar_restore+=("$__belljar_undo")
    return 0
}

# The last that happens before a cell: its own handling of interrupts is back.
__belljar_begin() {
    eval "${__belljar_trap:-trap - INT}"
    [[ -z $__belljar_hit ]] || __belljar_leave 130
    [[ -n $__belljar_strict ]] || return $__belljar_status
    set -e
}

# Gives the cell up, as an interrupt does. The shell would print a line end.
__belljar_leave() {
    [[ $BASHPID == "$$" ]] || builtin exit "$1"
    # Again, by what called the command that is being given up.
    if [[ -z $__belljar_stderr ]]; then
        __belljar_exit=$1
        exec {__belljar_stderr}>&2 2>/dev/null
    fi
    trap - INT
    kill -INT $$
    :
}

# `exit` ends the cell, not the context.
exit() {
    __belljar_leave "$((${1-$?} & 255))"
}

# So does a command that fails under `set -e`, or else the shell would end. Bash
# asks nobody before it ends for an unset variable under `set -eu`.
trap '__belljar_failed=$?; [[ $- != *e* ]] || __belljar_leave $__belljar_failed' ERR

__belljar_say '{"ev":"ready","language":"bash","version":"'${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}'","pid":'$$'}'
printf '__belljar_next\n' >&0
