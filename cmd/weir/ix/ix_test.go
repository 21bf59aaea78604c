// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/ix/ixtest"
	"weir/ix/plan"
)

const exchange = `version: 1
exchange: {name: Test, as: 65500}
sponsors:
  orange: {as: 8492, ports: {ber1: {addresses: [10.99.1.1], rate: 10Gbit, place: BER}}}
  green:  {as: 293, ports: {fra1: {addresses: [10.99.1.2], rate: 100Gbit, place: FRA}}, only: [freifunk]}
members:
  freifunk: {as: 64999, addresses: [10.99.2.1], place: BER, paths: 8}
  club:     {as: 64998, addresses: [10.99.2.2], small: true}
`

// files writes an exchange file and a table with two prefixes, one within the other.
func files(t *testing.T, text string) (file, rib string) {
	t.Helper()
	folder := t.TempDir()
	file, rib = filepath.Join(folder, "ix.yaml"), filepath.Join(folder, "rib.mrt")
	orange, green := netip.MustParseAddr("10.99.1.1"), netip.MustParseAddr("10.99.1.2")
	wide, narrow := netip.MustParsePrefix("192.0.0.0/16"), netip.MustParsePrefix("192.0.2.0/24")
	mrt := ixtest.Table([]netip.Addr{orange, green}, []ixtest.Path{
		{Prefix: wide, Peer: 0, NextHop: orange, ASPath: []uint32{8492, 3356}}, {Prefix: wide, Peer: 1, NextHop: green, ASPath: []uint32{293, 3356, 1}},
		{Prefix: narrow, Peer: 0, NextHop: orange, ASPath: []uint32{8492, 3356}}, {Prefix: narrow, Peer: 1, NextHop: netip.MustParseAddr("10.99.1.9"), ASPath: []uint32{293}},
	})
	for name, content := range map[string]string{file: text, rib: string(mrt)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, rib
}

func TestCheck(t *testing.T) {
	file, _ := files(t, exchange)
	status, out, _ := commands.Call(t, "ix", "check", file)
	if status != fault.OK || !strings.Contains(out, "is valid: 2 sponsors, 2 ports, 2 members\nNote: a path server requires feed") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out, _ = commands.Call(t, "ix", "check", file, "--format", "json"); status != fault.OK || !strings.Contains(out, `"format": "weir-ix-check/1"`) {
		t.Errorf("status %d: %s", status, out)
	}
	file, _ = files(t, strings.NewReplacer("paths: 8", "paths: 0", "[freifunk]", "[freifunc]").Replace(exchange))
	status, _, stderr := commands.Call(t, "ix", "check", file)
	if status != fault.Usage || !strings.Contains(stderr, "ix.yaml:5:") || !strings.Contains(stderr, "ix.yaml:7:") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestPlan(t *testing.T) {
	file, rib := files(t, exchange)
	status, out, stderr := commands.Call(t, "ix", "plan", file, "--rib", rib, "--format", "json", "--without", "green")
	var p plan.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil || status != fault.OK {
		t.Fatalf("status %d: %v\n%s", status, err, stderr)
	}
	if p.RIB.Paths != 3 || p.RIB.Prefixes != 2 || len(p.Members) != 2 || p.Members[0].Before != 3 || p.Members[1].After != 1 || p.Members[1].Omitted != 1 {
		t.Errorf("%s", out)
	}
	if p.Ports[1].Sponsor != "green" || *p.Ports[1].Failure != 0 || p.Members[0].Failure.Lost != 1 {
		t.Errorf("%s", out)
	}
	if !strings.Contains(stderr, "Left out: 1 paths with a next hop that is no port's address: 10.99.1.9 (1)") {
		t.Error(stderr)
	}
	traffic := filepath.Join(t.TempDir(), "bytes.csv")
	if err := os.WriteFile(traffic, []byte("192.0.2.1,100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, _ = commands.Call(t, "ix", "plan", file, "--rib", rib, "--traffic", traffic, "--without", "green/fra1")
	for _, want := range []string{"3 paths to 2 prefixes", "freifunk", "omitted", "orange/ber1", "Without green/fra1", "100.0 %", "traffic: 100 B, 100.0 % of it"} {
		if status != fault.OK || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, out)
		}
	}
}

func TestPlanRejects(t *testing.T) {
	file, rib := files(t, exchange)
	content, err := os.ReadFile(rib)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.mrt")
	if err := os.WriteFile(short, content[:len(content)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	other, _ := files(t, strings.NewReplacer("10.99.1.1", "10.99.1.3", "10.99.1.2", "10.99.1.4").Replace(exchange))
	for _, test := range []struct {
		want string
		args []string
	}{
		{"no table is given", []string{file}},
		{"there is no sponsor or port", []string{file, "--rib", rib, "--without", "red"}},
		{"--paths 0 is not from 1 to 65535", []string{file, "--rib", rib, "--paths", "0"}},
		{"--paths -1 is not from 1 to 65535", []string{file, "--rib", rib, "--paths", "-1"}},
		{"short.mrt: MRT: byte ", []string{file, "--rib", short}},
		{"no path of the table has a port's address", []string{other, "--rib", rib}},
		{"exchange file", []string{"/nowhere.yaml", "--rib", rib}},
		{"has no comma", []string{file, "--rib", rib, "--traffic", file}},
	} {
		status, _, stderr := commands.Call(t, append([]string{"ix", "plan"}, test.args...)...)
		if status != fault.Usage || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: status %d: %s", test.args, status, stderr)
		}
	}
	status, _, stderr := commands.Call(t, "ix", "plan", file, "--rib", short, "--partial")
	if status != fault.OK || !strings.Contains(stderr, "Warning: ") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestExplain(t *testing.T) {
	file, rib := files(t, exchange)
	status, out, _ := commands.Call(t, "ix", "explain", file, "192.0.2.7", "club", "--rib", rib)
	for _, want := range []string{"Paths to 192.0.2.0/24 for club", "orange/ber1", "8492 3356", "The hash is that of 192.0.0.0/16", "is left out for the member"} {
		if status != fault.OK || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in\n%s", status, want, out)
		}
	}
	status, out, _ = commands.Call(t, "ix", "explain", file, "192.0.0.0/16", "freifunk", "--rib", rib, "--format", "json")
	var x plan.Explanation
	if err := json.Unmarshal([]byte(out), &x); err != nil || status != fault.OK || len(x.List) != 2 || x.List[0].Sponsor != "orange" || x.List[1].Reason != "not in BER, second AS repeats position 1, hash" {
		t.Errorf("status %d: %v: %s", status, err, out)
	}
	if status, _, stderr := commands.Call(t, "ix", "explain", file, "203.0.113.1", "--rib", rib); status != fault.Usage {
		t.Errorf("status %d: %s", status, stderr)
	}
}
