# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What sim/run and tests/run share: Debian packages, folders out of the tree, commands that are quiet
# until they fail. Sourced. ROOT is the top of the source tree.

# shellcheck disable=SC2034 # for those who source this
build_packages=(build-essential cmake ninja-build pkg-config libglib2.0-dev libcsv-dev libcjson-dev
    libprotobuf-c-dev protobuf-c-compiler)
# shellcheck disable=SC2034
# What the reference executor needs besides; the simulator builds and runs without them.
executor_packages=(libopenmpi-dev openmpi-bin libopenblas-dev)

# Progress, for people only.
say() {
    if [ -t 2 ]; then
        printf '%s\n' "$*" >&2
    fi
}

# cache_folder ROOT: where everything that is built goes, a folder for each source tree.
cache_folder() {
    local sum
    sum=$(printf '%s' "$1" | cksum)
    printf '%s/fsdpsim/build-%s' "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}" "${sum%% *}"
}

# run_quietly LOG COMMAND...: output goes to LOG, and to standard error if the command fails.
run_quietly() {
    local log=$1 code=0
    shift
    "$@" >"$log" 2>&1 </dev/null || code=$?
    if [ "$code" -ne 0 ]; then
        cat "$log" >&2
    fi
    return "$code"
}

# can_include HEADER
can_include() {
    printf '#include <%s>\n' "$1" | cc -E -x c -
}

# True if what PACKAGE brings works here, wherever it came from.
probe_package() {
    case $1 in
    build-essential) can_include stdlib.h ;;
    ninja-build) command -v ninja ;;
    libglib2.0-dev) pkg-config --exists 'gio-2.0 >= 2.74' ;;
    libcsv-dev) can_include csv.h ;;
    libcjson-dev) pkg-config --exists libcjson ;;
    libprotobuf-c-dev) pkg-config --exists libprotobuf-c ;;
    protobuf-c-compiler) command -v protoc-c ;;
    check) pkg-config --exists check ;;
    libopenmpi-dev) pkg-config --exists ompi-c ;;
    openmpi-bin) command -v mpirun ;;
    libopenblas-dev) pkg-config --exists openblas ;;
    libclang-rt-14-dev) [ -n "$(find "$(clang -print-resource-dir)" -name 'libclang_rt.asan-*.a')" ] ;;
    *) command -v "$1" ;;
    esac
}

has_package() {
    # Debian's word counts too: without pkg-config no library can be probed.
    probe_package "$1" >/dev/null 2>&1 ||
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# install_packages LOG PACKAGE...: as root or with sudo. A fresh machine has no package lists, so it
# fetches them if the first try fails.
install_packages() {
    local log=$1 become=()
    shift
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 1
        become=(sudo)
        # Without a terminal nobody can type a password.
        [ -t 0 ] || become+=(-n)
        "${become[@]}" true 2>/dev/null || return 1
    fi
    local apt=("${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y
        -o DPkg::Lock::Timeout=300)
    local install=("${apt[@]}" install --no-install-recommends "$@")
    "${install[@]}" >"$log" 2>&1 </dev/null && return
    run_quietly "$log" "${apt[@]}" update && run_quietly "$log" "${install[@]}"
}

# require_packages LOG PACKAGE...: returns once all are there, else exits 3 with one line.
require_packages() {
    local log=$1 package missing=()
    shift
    for package in "$@"; do
        has_package "$package" || missing+=("$package")
    done
    if [ "${#missing[@]}" -eq 0 ]; then
        return
    fi
    say "installing ${missing[*]}"
    if command -v apt-get >/dev/null && install_packages "$log" "${missing[@]}"; then
        return
    fi
    printf 'missing packages, install them with: apt-get install %s\n' "${missing[*]}" >&2
    exit 3
}

# configure_and_build ROOT FOLDER CMAKE_ARGUMENTS...
configure_and_build() {
    local root=$1 folder=$2
    shift 2
    run_quietly "$folder.log" cmake -S "$root" -B "$folder" -G Ninja "$@" &&
        run_quietly "$folder.log" ninja -C "$folder"
}
