// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/modules/offload"
)

// routerState is a router with two ports and three routes: offloaded, with an unresolved next hop,
// and through a link outside the policy.
const routerState = `weir-offload-state/1
host forward6 true rp_filter 0 multipath_hash 0
link 2 name "eth0" mac 02:00:00:00:00:01 mtu 1500 up true lower true ethernet true forward4 true
link 3 name "eth1" mac 02:00:00:00:00:02 mtu 1500 up true lower true ethernet true forward4 true
link 4 name "eth2" mac 02:00:00:00:00:03 mtu 1500 up true lower true ethernet true forward4 true
neighbor 3 10.0.0.2 mac 02:00:00:00:00:22 valid true
neighbor 4 10.1.0.2 mac 02:00:00:00:00:33 valid true
rule 32766 action 1 table 254 suppress -1
rule 32766 ipv6 true action 1 table 254 suppress -1
group 1 hop 3 via 10.0.0.2
group 2 hop 3 via 10.0.0.9
group 3 hop 4 via 10.1.0.2
table 254
route 198.51.100.0/24 group 1
route 203.0.113.0/24 group 2
route 192.0.2.0/24 group 3
`

func offloadFiles(t *testing.T, section string) (policy, state string) {
	t.Helper()
	folder := t.TempDir()
	policy, state = filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "router")
	for name, text := range map[string]string{policy: "version: 1\nscopes: {}\n" + section, state: routerState} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return policy, state
}

// A plan of a state file needs no router.
func TestOffloadIsPlannedOffline(t *testing.T) {
	policy, state := offloadFiles(t, "offload: {from: [eth0, eth1]}\n")
	status, out, stderr := commands.Call(t, "offload", "plan", policy, "--state", state, "--prove", "--rules", "--format", "json")
	if status != fault.OK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got offload.Summary
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Routes != 3 || got.Offloaded != 1 || len(got.Left) != 2 || got.Checked == 0 || len(got.Differences) > 0 {
		t.Errorf("%+v", got)
	}
	found := false
	for _, r := range got.Rules {
		found = found || r.To.String() == "198.51.100.0/24" && r.Hops == "eth1 to 02:00:00:00:00:22"
	}
	if !found {
		t.Errorf("rules %+v", got.Rules)
	}
	if status, out, stderr := commands.Call(t, "offload", "plan", policy, "--state", state); status != fault.OK || !strings.Contains(out, "output link outside the policy") {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}

// Errors name the object that cannot be offloaded, and a way out.
func TestOffloadsThatCannotBeAreRefused(t *testing.T) {
	for section, want := range map[string]string{
		"":                                    "has no section offload",
		"offload: {from: [eth7]}\n":           "there is no device eth7",
		"offload: {from: []}\n":               "offload.from: no link is named",
		"offload: {from: [eth0, eth0]}\n":     "eth0 is named twice",
		"offload: {from: [eth0], table: x}\n": `"x" is not a routing table`,
		"offload: {from: [eth0], except: [1.2.3.4/33]}\n":     `"1.2.3.4/33" is not a prefix`,
		"offload: {from: [eth0], ipv4: false, ipv6: false}\n": "neither ipv4 nor ipv6",
		"offload: {from: [eth0], multipath: both}\n":          "multipath",
		"offload: {to: [eth0]}\n":                             "from",
	} {
		policy, state := offloadFiles(t, section)
		status, _, stderr := commands.Call(t, "offload", "plan", policy, "--state", state)
		if status != fault.Usage || !strings.Contains(stderr, want) || !strings.Contains(stderr, "Try:") {
			t.Errorf("%q: status %d: %s, want %q", section, status, stderr, want)
		}
	}
}
