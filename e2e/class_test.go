// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// A scope's packets arrive with its class, for any kind of selector, and prove observes it at the
// receiver; a foreign program that marks otherwise afterwards is detected too.
func TestClassesAreProvenByWhatArrives(t *testing.T) {
	got := box(t, `ip link add eth0 type veth peer name eth1
ip link set eth0 up
ip link set eth1 up
ip address add 192.0.2.1/24 dev eth0
cat > policy.yaml <<'P'
version: 1
scopes:
  backups: {cgroup: /backups, class: lbe}
  robot: {user: 12345, class: AF21}
  far: {prefix: 203.0.113.0/24, class: premium}
  out: {interface: eth0, class: cs1}
P
"$WEIR" plan policy.yaml >&2
"$WEIR" apply --quiet policy.yaml >&2
"$WEIR" prove --quiet --format json --duration 200ms --repetitions 1 policy.yaml
echo "status $?" >&2
"$WEIR" status >&2
find /sys/fs/bpf/weir/devices -type f | wc -l >&2
"$WEIR" release --quiet
ls -A /sys/fs/bpf >&2`)
	got.want(t, 0)
	var p proof
	if err := json.Unmarshal([]byte(got.stdout), &p); err != nil {
		t.Fatalf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	seen := map[string]int{}
	for _, r := range p.Rows {
		if r.Module != "class" || r.Check != "class" {
			t.Errorf("a row of %s, %s", r.Module, r.Check)
		}
		if r.Verdict == "holds" {
			seen[r.Scope]++
		}
	}
	for _, scope := range []string{"backups", "robot", "far", "out"} {
		if seen[scope] < 2 {
			t.Errorf("%d rows of %s hold, want TCP and UDP by IPv4 at least\n%s\n%s", seen[scope], scope, got.stdout, got.stderr)
		}
	}
	if !strings.Contains(got.stderr, "status 0") || !strings.Contains(got.stderr, "marks with DSCP 1") {
		t.Errorf("%s", got.stderr)
	}
}

// Received packets are not marked, though a shaper sends them through an ifb: the three requests of
// a ping, and their answers, are observed at the other end.
func TestWhatIsReceivedIsNotMarked(t *testing.T) {
	testutil.Command(t, "ping")
	testutil.Need(t, "ifb", probe.IFB())
	got := box(t, `sysctl -qw net.ipv6.conf.default.disable_ipv6=1
unshare -n sleep 60 & far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link add eth0 type veth peer name eth0 netns $far
nsenter -t $far -n ip link set eth0 up
nsenter -t $far -n ip address add 192.0.2.2/24 dev eth0
ip link set eth0 up
ip address add 192.0.2.1/24 dev eth0
cat > policy.yaml <<'P'
version: 1
scopes:
  all: {prefix: 192.0.2.0/24, class: cs1}
  wire: {interface: eth0, ingress: {rate: 50Mbit, mode: shape}}
P
"$WEIR" apply --quiet policy.yaml >&2
"$WEIR" apply --quiet policy.yaml >&2 # the ifb is there by now
ping -q -c 3 -i 0.05 192.0.2.2 >&2
"$WEIR" status --format json
"$WEIR" release --quiet
kill $far`)
	got.want(t, 0)
	var status struct {
		Modules []struct {
			Module string
			Rows   []struct {
				Scope  string
				Values struct{ Packets, Marked int }
			}
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil {
		t.Fatalf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	for _, r := range status.Modules {
		if r.Module == "class" {
			if len(r.Rows) != 1 || r.Rows[0].Values.Packets != 6 {
				t.Errorf("%+v, want six packets of all\n%s", r.Rows, got.stderr)
			}
			return
		}
	}
	t.Errorf("nothing of classes\n%s%s", got.stdout, got.stderr)
}
