// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/core/policy"
	"weir/internal/units"
)

func TestScopesThatAreNeverReachedAreWarnedOf(t *testing.T) {
	got, err := parse("p.yaml", []byte(`version: 1
scopes:
  outer: {cgroup: /a, egress: 10Mbit}
  inner: {cgroup: /a/b, egress: 20Mbit, ingress: 30Mbit}
  other: {cgroup: /ab, egress: 20Mbit}
  deep: {cgroup: /a/b/c/d, egress: 15Mbit, ingress: 1Mbit}
  all: {host: true, egress: 18Mbit}
  rack: {prefix: 10.0.0.0/8, egress: 18Mbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"p.yaml:4:33: scope inner: its egress of 20 Mbit/s is never reached, since the enclosing scope outer, at p.yaml:3:31, has 10 Mbit/s: lower the former or raise the latter",
		"p.yaml:5:32: scope other: its egress of 20 Mbit/s is never reached, since the enclosing scope all, at p.yaml:7:29, has 18 Mbit/s: lower the former or raise the latter",
		"p.yaml:6:36: scope deep: its egress of 15 Mbit/s is never reached, since the enclosing scope outer, at p.yaml:3:31, has 10 Mbit/s: lower the former or raise the latter",
		"p.yaml:3:19: traffic may belong to 5 scopes at once (outer, inner, deep, all, rack), and a packet is charged to at most 4, without the outermost: leave one out, or check the overflow counter of 'weir status'",
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func TestRatesTooLowToShareAreWarnedOf(t *testing.T) {
	got, err := parse("p.yaml", []byte(`version: 1
scopes:
  enough: {user: 1, egress: 120kbit, ingress: 119kbit}
  slow: {egress: 64kbit}
  heavy: {user: 2, parent: slow, egress: {weight: 3}}
  light: {user: 3, parent: work, egress: {rate: 100kbit}}
  work: {egress: 1Mbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	const why = "too slow for several flows to share evenly or without delay: write 120 kbit/s or more"
	want := []string{
		"p.yaml:3:47: scope enough: its ingress of 119 kbit/s is one full-sized packet every 101ms, " + why,
		"p.yaml:4:18: scope slow: its egress of 64 kbit/s is one full-sized packet every 188ms, " + why,
		"p.yaml:6:43: scope light: its egress of 100 kbit/s is one full-sized packet every 120ms, " + why,
	}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func TestLoopbackIsLimitedOnlyIfAskedFor(t *testing.T) {
	for text, want := range map[string]string{
		"prefix: 127.0.0.0/8, egress: 1Mbit":                 "p.yaml:3:15: scope a limits nothing, since loopback traffic is exempt: add loopback: true",
		"prefix: '::1/128', egress: 1Mbit":                   "p.yaml:3:15: scope a limits nothing, since loopback traffic is exempt: add loopback: true",
		"prefix: 127.0.0.0/8, egress: 1Mbit, loopback: true": "",
		"interface: lo, egress: 1Mbit":                       "p.yaml:3:18: scope a limits nothing, since loopback traffic is exempt: add loopback: true",
		"interface: lo, egress: 1Mbit, loopback: true":       "",
	} {
		got, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {"+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(got.Warnings, "\n"); warnings != want {
			t.Errorf("%s: warnings %q, want %q", text, warnings, want)
		}
	}
}

func TestRatesAboveTheParentsAreWarnedOf(t *testing.T) {
	got, err := parse("p.yaml", []byte("version: 1\nscopes:\n  a: {user: 7, parent: g, egress: 200Mbit}\n  g: {egress: 100Mbit}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"p.yaml:3:35: scope a: its egress of 200 Mbit/s is never reached, since its parent g, at p.yaml:4:15, has 100 Mbit/s: leave the rate out, or raise the parent's"}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func TestRatesThatNoLinkCarriesAreWarnedOf(t *testing.T) {
	p, err := parse("p.yaml", []byte(`version: 1
scopes:
  nic: {interface: eth0, egress: 20Gbit, ingress: 10Gbit}
  down: {interface: eth1, egress: 20Gbit}
  all: {host: true, egress: 41Gbit}
  rack: {prefix: 10.0.0.0/8, ingress: {rate: 40Gbit}}
`))
	if err != nil {
		t.Fatal(err)
	}
	speed := func(s policy.Selector) (units.BitRate, string) {
		if s.Kind == "interface" {
			return map[string]units.BitRate{"eth0": 10e9}[s.Text], s.Text + " carries"
		}
		return 40e9, "the links of this host carry"
	}
	want := []string{
		"p.yaml:3:34: scope nic: its egress of 20 Gbit/s is never reached, since eth0 carries 10 Gbit/s: write a lower rate, or leave it out",
		"p.yaml:5:29: scope all: its egress of 41 Gbit/s is never reached, since the links of this host carry 40 Gbit/s: write a lower rate, or leave it out",
	}
	if diff := cmp.Diff(want, aboveSpeed(p, speed)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := aboveSpeed(p, func(policy.Selector) (units.BitRate, string) { return 0, "" }); got != nil {
		t.Errorf("without any speed: %q", got)
	}
}
