// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// A device passes from classes on links to a shaper and back, for any applying process; both at
// once are rejected before anything changes.
func TestDevicePassesBetweenModules(t *testing.T) {
	testutil.Command(t, "curl")
	testutil.Need(t, "htb", probe.Qdisc("htb"))
	testutil.Need(t, "tbf", probe.Qdisc("tbf"))
	got := box(t, `ip link add eth0 type veth peer name eth1
ip link set eth0 up
ip link set eth1 up
tc qdisc replace dev eth1 root handle 5: tbf rate 1gbit burst 100kb latency 50ms
queues() { tc qdisc show dev eth1 | grep -c " $1 "; }
printf 'version: 1\nscopes: {}\nlinks:\n  eth1: {rate: 500Mbit}\n' > links.yaml
printf 'version: 1\nscopes:\n  wire: {interface: eth1, egress: {rate: 70Mbit, mode: shape}}\n' > delay.yaml
cat delay.yaml - <<P > both.yaml
links:
  eth1: {rate: 500Mbit}
P
for file in links delay links; do
    "$WEIR" apply --quiet $file.yaml >&2
    echo "$file $?"
done
"$WEIR" plan --quiet both.yaml >&2; echo "plan of both $?"
"$WEIR" apply --quiet both.yaml >&2; echo "both $?"
"$WEIR" status --format json > status; grep -o '"module": *"[a-z]*"' status

# A daemon had the device for links, somebody else gives it to the limit, and the daemon follows.
cp links.yaml followed.yaml
"$WEIR" daemon --quiet --socket "$PWD/api" followed.yaml 2> log & daemon=$!
await curl -sf --unix-socket api http://weir/healthz > health
"$WEIR" apply --quiet delay.yaml >&2; echo "beside a daemon $?"
sed s/70/80/ delay.yaml > next; mv next followed.yaml
followed() { "$WEIR" status --format json | grep -q 80000000 || grep "changes nothing" log; }
await followed
kill $daemon; wait $daemon
"$WEIR" release --quiet >&2; echo "release $?"
tc qdisc show dev eth1 | grep -o 'tbf 5:'`)
	got.want(t, 0)
	want := []string{"links 0", "delay 0", "links 0", "plan of both 2", "both 2", `"module": "links"`, "beside a daemon 0", "release 0", "tbf 5:"}
	if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q\n%s", lines, want, got.stderr)
	}
	if text := "eth1: both limit and links of this policy replace its queues: scope wire would put all classes of eth1 into one queue"; !strings.Contains(got.stderr, text) {
		t.Errorf("nothing says %q:\n%s", text, got.stderr)
	}
}
