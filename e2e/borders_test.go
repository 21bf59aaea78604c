// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// Borders and links are planned, tried in shadow, applied, proved and released.
func TestBordersAndLinksAreTriedAndProved(t *testing.T) {
	testutil.Need(t, "htb", probe.Qdisc("htb"))
	testutil.Need(t, "tbf", probe.Qdisc("tbf"))
	got := box(t, `ip link add eth0 type veth peer name eth1
ip link set eth0 up
ip link set eth1 up
before=$(tc qdisc show dev eth1)
cat > policy.yaml <<P
version: 1
borders:
  eth0: {from: {10.20.0.0/16: lbe}, translate: {lbe: CS1}}
links:
  eth1: {rate: 10Mbit}
P
"$WEIR" plan policy.yaml | grep -o 'LE is CS1 beyond'
"$WEIR" apply --quiet --shadow policy.yaml >&2; echo "shadow $?"
[ "$before" = "$(tc qdisc show dev eth1)" ] && echo "the tree stays"
"$WEIR" prove --quiet --format json > shadow.json; echo "prove in shadow $?"
grep -c '"verdict": *"shadow"' shadow.json
"$WEIR" apply --quiet policy.yaml >&2; echo "apply $?"
"$WEIR" prove --quiet --format json > proof.json; code=$?
# A host that others keep busy may be unable to fill a link, and says so.
[ $code = 0 ] || { [ $code = 3 ] && grep -q '"this host' proof.json; }; echo "prove $?"
"$WEIR" status --format json | grep -o '"module": *"[bl][a-z]*"' | sort -u
"$WEIR" release --quiet >&2; echo "release $?"
[ "$before" = "$(tc qdisc show dev eth1)" ] && echo "the tree is back"`)
	got.want(t, 0)
	want := []string{"LE is CS1 beyond", "shadow 0", "the tree stays", "prove in shadow 0", "2", "apply 0", "prove 0",
		`"module": "borders"`, `"module": "links"`, "release 0", "the tree is back"}
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q\n%s", lines, want, got.stderr)
	}
}

// A path is measured only by a responder with the token.
func TestAvailableBandwidthIsAsked(t *testing.T) {
	got := box(t, `ip link set lo up
echo secret > token
"$WEIR" avail --listen 127.0.0.1:5202 --token-file token 2> log & responder=$!
await grep -q 'responder at 127.0.0.1:5202' log
"$WEIR" avail 127.0.0.1:5202 --quiet --token-file token --most 3Mbit --repetitions 2 --format json > found; echo "avail $?"
grep -c '"format": *"weir-avail/1"' found
grep -o '"at_least": *"[^"]*"' found
"$WEIR" avail 127.0.0.1:5202 --quiet --token guessed >&2; echo "a guess $?"
"$WEIR" avail >&2; echo "nowhere $?"
kill $responder; wait $responder; echo "responder $?"`)
	got.want(t, 0)
	want := []string{"avail 0", "1", `"at_least": "no more was tried"`, "a guess 3", "nowhere 2", "responder 0"}
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q\n%s", lines, want, got.stderr)
	}
}
