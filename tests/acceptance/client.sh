#!/bin/bash
# The reference client in shell, with curl and sed: it registers, follows, lists and polls politely.
set -u

base=$SANDBOX_API_URL/api
answer=$(mktemp) && headers=$(mktemp)
trap 'rm -f "$answer" "$headers"' EXIT

member() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# The part of a JSON text that follows a member: an object without objects inside.
object() { sed -n "s/.*\"$1\": *\({[^}]*}\).*/\1/p"; }

# call METHOD PATH [BODY]: the answer is in $answer. Repeats what may succeed later, with one key.
call() {
  local key wait=0.3 status after
  key=$(od -An -tx1 -N12 /dev/urandom | tr -d ' \n')
  for _ in 1 2 3 4 5 6; do
    status=$(curl -sS -m 3 -X "$1" "$base$2" -o "$answer" -D "$headers" -w '%{http_code}' \
      -H "Authorization: Bearer $SANDBOX_API_KEY" -H "Idempotency-Key: $key" \
      ${3:+-H 'Content-Type: application/json' --data-raw "$3"}) || status=000
    case $status in
      2*) grep -q '"data"' "$answer" && grep -q '}$' "$answer" && return 0 ;;
      000 | 429 | 5*) ;;
      *) cat "$answer" >&2; return 1 ;;
    esac
    after=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]*\).*/\1/p' "$headers")
    sleep "$(awk -v a="${after:-0}" -v b="$wait" 'BEGIN { print (a > b) ? a : b }')"
    wait=$(awk -v w="$wait" 'BEGIN { print 2 * w }')
  done
  return 1
}

register() {
  call POST /invoices "$(printf %s "$ACCEPTANCE_TASK" | object invoice)" || exit 1
  id=$(member id < "$answer")
}

case $(printf %s "$ACCEPTANCE_TASK" | member name) in
  register) register ;;
  register-and-follow)
    register
    until_status=$(printf %s "$ACCEPTANCE_TASK" | member until)
    while call GET "/invoices/$id"; do
      grep -q "\"status\":\"$until_status\"" "$answer" && exit 0
      sleep 1
    done
    exit 1
    ;;
  list-offers) call GET /offers ;;
  request-financing)
    id=$(printf %s "$ACCEPTANCE_TASK" | member invoiceId)
    call POST /financing-requests "{\"invoiceIds\":[\"$id\"]}"
    ;;
  *) echo "this client does not have the task" >&2; exit 2 ;;
esac
