#!/usr/bin/env bash
# Gets what `make bench-peers` compares with: Python clients into the environment, Kafka's jars and nats-server into
# ~/.cache/goqueue-peers, Redis and RabbitMQ from the distribution. What cannot be had is named, and the rest goes on.
#
#   tests/bench/peers/install.sh PYTHON
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$here/../../.."
cache="$HOME/.cache/goqueue-peers"
python="${1:?give the Python of the environment}"
case "$python" in /*) ;; *) python="$PWD/$python" ;; esac
mkdir -p "$cache/bin"
failed=0

attempt() {
  local what="$1"
  shift
  echo "$what ..."
  "$@" || { echo "could not get: $what" >&2; failed=1; }
}

as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"

attempt "Python clients" "$python" -m pip install --quiet --disable-pip-version-check \
  -c "$root/constraints.txt" -e "$root[peers]"
attempt "Apache Kafka's jars (needs Maven and Java 17)" mvn --quiet --batch-mode -f "$here/pom.xml" \
  dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$cache/kafka"
attempt "nats-server (needs Go)" env GOBIN="$cache/bin" go install github.com/nats-io/nats-server/v2@latest
attempt "redis-server and rabbitmq-server" $as_root apt-get install -y -qq --no-install-recommends \
  redis-server rabbitmq-server
exit $failed
