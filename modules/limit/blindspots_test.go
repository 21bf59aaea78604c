// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weir/core/policy"
	"weir/kernel/testutil"
)

// Every selector and mode has its blind spots, on a router and elsewhere.
func TestBlindSpotsOfSelectorsAndModes(t *testing.T) {
	const police, shape, count = "egress: 5Mbit", "egress: {rate: 5Mbit, mode: shape}", "shadow: true, egress: {rate: 5Mbit, mode: shape}"
	for _, test := range []struct {
		selector, limit   string
		elsewhere, router []string // names of blind spots
	}{
		{"interface: eth0", police, []string{forwardedTraffic}, []string{forwardedTraffic}},
		{"interface: eth0", count, []string{forwardedTraffic}, []string{forwardedTraffic}},
		{"interface: eth0", shape, nil, nil},
		{"interface: eth0", shape + ", ingress: 5Mbit", []string{forwardedTraffic}, []string{forwardedTraffic}},
		{"interface: port", police, []string{forwardedTraffic}, []string{forwardedTraffic, upperDevices}},
		{"interface: lo", "loopback: true, " + police, nil, nil},
		{"prefix: 10.0.0.0/8", police, nil, []string{forwardedTraffic}},
		{"prefix: 10.0.0.0/8", "ingress: 5Mbit", nil, []string{forwardedTraffic}},
		{"prefix: 10.0.0.0/8", shape, nil, nil},
		{"prefix: 127.0.0.0/8", police, nil, nil},
		{"host: true", police, nil, []string{forwardedTraffic}},
		{"host: true", shape, nil, []string{forwardedTraffic}},
		{"mark: 7", police, nil, []string{forwardedTraffic}},
		{"mark: 7", shape, nil, []string{forwardedTraffic}},
		{"netns: blue", police, []string{nestedNamespaces}, []string{nestedNamespaces}},
		{"netns: blue", shape, nil, nil},
		{"cgroup: /a", police, nil, nil},
		{"cgroup: /a", shape, nil, []string{forwardedTraffic}},
		{"unit: a.service", shape, nil, []string{forwardedTraffic}},
		{"user: 7", police, nil, nil},
		{"user: 7", shape, nil, []string{forwardedTraffic}},
	} {
		p, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {"+test.selector+", "+test.limit+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		router := surroundings{forwards: true, above: func(dev string) []string { return map[string][]string{"port": {"br0"}}[dev] }}
		for _, on := range []struct {
			facts surroundings
			want  []string
		}{{surroundings{}, test.elsewhere}, {router, test.router}} {
			var got []string
			for _, b := range blindSpots(p.Scopes[0], func() surroundings { return on.facts }) {
				got = append(got, b.Name)
				if !strings.Contains(b.Text, "not limited") || !strings.Contains(b.Text, "limit") {
					t.Errorf("%s: %s", test.selector, b.Text)
				}
			}
			if !slices.Equal(got, on.want) {
				t.Errorf("%s, %s, router %t: %q, want %q", test.selector, test.limit, on.facts.forwards, got, on.want)
			}
		}
	}
}

// Tunnels and the uplinks of other namespaces are blind spots of shaped scopes.
func TestBlindSpotsOfShapedScopes(t *testing.T) {
	on := surroundings{tunnel: "wg0", uplink: func() (string, error) { return "eth1 of another", nil }}
	for selector, want := range map[string][]string{
		"prefix: 10.0.0.0/8": {tunnelled, otherUplinks}, "host: true": {otherUplinks}, "user: 7": {otherUplinks}, "interface: eth0": nil, "netns: blue": nil,
	} {
		for limit, want := range map[string][]string{"egress: {rate: 5Mbit, mode: shape}": want, "ingress: {rate: 5Mbit, mode: police}": nil} {
			p, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {"+selector+", "+limit+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range blindSpots(p.Scopes[0], func() surroundings { return on }) {
				if b.Name == tunnelled || b.Name == otherUplinks {
					got = append(got, b.Name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", selector, limit, got, want)
			}
		}
	}
}

// Devices above a policed interface are found through any number of levels, and a peer is none.
func TestDevicesAboveAnInterfaceAreFound(t *testing.T) {
	d := newShapedHost(t)
	d.second()
	d.do(func() error {
		for _, line := range []string{"ip link add br0 type bridge", "ip link set eth0 master br0", "ip link add mac0 link br0 type macvlan", "ip link add p0 type veth peer name p1"} {
			if err := exec.Command("sh", "-c", line).Run(); err != nil {
				testutil.Need(t, line, err)
			}
		}
		above := readSurroundings().above
		if got := above("eth0"); !slices.Equal(got, []string{"br0", "mac0"}) {
			t.Errorf("above eth0: %q", got)
		}
		if got := slices.Concat(above("eth1"), above("p0"), above("missing")); len(got) > 0 {
			t.Errorf("above devices with nothing above them: %q", got)
		}
		return nil
	})
}

// Plan, status and prove name the same blind spots of scopes on a router, and none elsewhere.
func TestBlindSpotsAreReportedOnRouters(t *testing.T) {
	d := newShapedHost(t)
	reports := func() (plan, status, prove []string) {
		d.do(func() error {
			var scopes []policy.Scope
			for _, b := range d.have.Scopes {
				scopes = append(scopes, b.Scope)
				for _, c := range (Module{}).Checks(b.Scope) {
					for _, blind := range c.Charged.Blind {
						prove = append(prove, blind.Text)
					}
				}
			}
			plan = unseen(&policy.Policy{Scopes: scopes}, here())
			report, err := d.plane.Report(d.have)
			status = slices.DeleteFunc(report.Note, func(s string) bool { return !strings.Contains(s, "forward") })
			return err
		})
		return plan, status, prove
	}
	d.apply("  a: {prefix: 192.0.2.0/24, egress: {rate: 5Mbit, mode: police}}\n  b: {host: true, egress: {rate: 5Mbit, mode: police}}\n")
	if plan, status, prove := reports(); len(plan)+len(status)+len(prove) > 0 {
		t.Errorf("on a host that does not forward: %q, %q, %q", plan, status, prove)
	}
	for name, turn := range map[string][2]string{
		"all":        {"sysctl -qw net.ipv4.ip_forward=1", "sysctl -qw net.ipv4.ip_forward=0"},
		"one device": {"sysctl -qw net.ipv4.conf.eth0.forwarding=1", "sysctl -qw net.ipv4.conf.eth0.forwarding=0"},
		"IPv6":       {"sysctl -qw net.ipv6.conf.all.forwarding=1", "sysctl -qw net.ipv6.conf.all.forwarding=0"},
		"a bridge":   {"ip link add br0 type bridge", "ip link del br0"},
	} {
		shell := func(line string) error {
			return d.at.Do(func() error { return exec.Command("sh", "-c", line).Run() })
		}
		if err := shell(turn[0]); err != nil {
			testutil.Need(t, name, err)
		}
		plan, status, prove := reports()
		if len(plan) != 2 || len(status) != 2 || len(prove) != 2 {
			t.Errorf("%s: plan %q, status %q, prove %q", name, plan, status, prove)
		}
		for i, text := range prove {
			if !strings.HasSuffix(plan[i], text) || status[i] != fmt.Sprintf("%s: %s.", d.have.Scopes[i].Name, text) {
				t.Errorf("%s: %q, %q and %q differ", name, plan[i], status[i], text)
			}
		}
		if err := shell(turn[1]); err != nil {
			t.Fatal(err)
		}
	}
}
