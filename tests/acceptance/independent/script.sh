#!/bin/bash
# A client in bash with curl and sed: it polls every two seconds.
invoice=$(sed -n 's/.*"invoice": *\({[^}]*}\).*/\1/p' <<<"$ACCEPTANCE_TASK")
name=$(sed -n 's/.*"name": *"\([^"]*\)".*/\1/p' <<<"$ACCEPTANCE_TASK")
goal=$(sed -n 's/.*"until": *"\([^"]*\)".*/\1/p' <<<"$ACCEPTANCE_TASK")
key="X-Api-Key: $SANDBOX_API_KEY"

case $name in
  list-offers) curl -s -H "$key" "$SANDBOX_API_URL/api/offers"; exit ;;
  register*) ;;
  *) exit 9 ;;
esac

id=
for wait in 1 2 4 8; do
  code=$(curl -s -m 5 -o /tmp/$$ -D /tmp/$$.head -w '%{http_code}' -H "$key" -H "Idempotency-Key: $$-$PPID" \
    -H 'Content-Type: application/json' -d "$invoice" "$SANDBOX_API_URL/api/invoices") && [ "$code" = 201 ] \
    && id=$(sed -n 's/.*"id": *"\(inv_[^"]*\)".*/\1/p' /tmp/$$) && [ -n "$id" ] && break
  case $code in 4*) [ "$code" = 429 ] || exit 1 ;; esac
  after=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]*\).*/\1/p' /tmp/$$.head)
  sleep $(( ${after:-0} > wait ? after : wait ))
done
rm -f /tmp/$$.head
[ -n "$id" ] || exit 1
[ "$name" = register ] && exit 0
while sleep 2; do
  code=$(curl -s -m 5 -o /tmp/$$ -w '%{http_code}' -H "$key" "$SANDBOX_API_URL/api/invoices/$id")
  grep -q "\"status\": *\"$goal\"" /tmp/$$ && break
  [ "$code" = 401 ] && break
done
rm -f /tmp/$$
