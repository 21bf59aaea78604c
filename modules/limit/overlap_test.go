// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"weir/internal/child"
	"weir/modules/limit/police"
)

// Five nested cgroups, or four and the host, exceed the scopes of a packet.
func TestTooManyScopesOfTrafficAreRejected(t *testing.T) {
	nested := `version: 1
scopes:
  a: {cgroup: /a, egress: 10Mbit}
  b: {cgroup: /a/b, egress: 9Mbit}
  c: {cgroup: /a/b/c, egress: 8Mbit}
  d: {cgroup: /a/b/c/d, egress: 7Mbit}
`
	if _, err := parse("p.yaml", []byte(nested)); err != nil {
		t.Errorf("four cgroups: %v", err)
	}
	for name, more := range map[string]string{
		"a cgroup":          "  e: {cgroup: /a/b/c/d/e, egress: 6Mbit}\n",
		"the host":          "  e: {host: true, egress: 20Mbit}\n",
		"a parent of one":   "  e: {egress: 20Mbit}\n",
		"one that is apart": "  e: {cgroup: /b, egress: 20Mbit}\n",
	} {
		text := nested
		if name == "a parent of one" {
			text = strings.Replace(text, "/a/b, egress: 9Mbit", "/a/b, parent: e, egress: 9Mbit", 1)
		}
		_, err := parse("p.yaml", []byte(text+more))
		if name == "one that is apart" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "its traffic belongs to 5 scopes (a, b, c, d, e), and a packet is charged to at most 4") {
			t.Errorf("%s more: %v", name, err)
		}
	}
}

func TestTrafficThatMayBeOfTooManyScopesIsWarnedOf(t *testing.T) {
	for text, want := range map[string]string{
		"  a: {cgroup: /a, egress: 1Mbit}\n  b: {user: 1, egress: 1Mbit}\n  c: {mark: 1, egress: 1Mbit}\n  d: {prefix: 10.0.0.0/8, egress: 1Mbit}\n":                                                  "",
		"  a: {cgroup: /a, egress: 1Mbit}\n  b: {user: 1, egress: 1Mbit}\n  c: {mark: 1, egress: 1Mbit}\n  d: {prefix: 10.0.0.0/8, parent: g}\n  e: {user: 2, egress: 1Mbit}\n  g: {egress: 2Mbit}\n": "p.yaml:3:15: traffic may belong to 5 scopes at once (a, b, c, d, g)",
	} {
		got, err := parse("p.yaml", []byte("version: 1\nscopes:\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if warnings := strings.Join(got.Warnings, "\n"); !strings.HasPrefix(warnings, want) || want == "" && warnings != "" {
			t.Errorf("%s: warnings %q, want %q", text, warnings, want)
		}
	}
}

// Packets of too many scopes are counted one by one, also those of a flow with cached scopes.
func TestEveryPacketOfTooManyScopesIsCounted(t *testing.T) {
	client, server, address := path(t)
	sink := udpSink(t, server, address)
	outer, inner := nested(t)
	p, err := police.Load(5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for scope := range 5 {
		if err := p.Set(scope, Egress, Limit{Rate: police.MaxRate}); err != nil {
			t.Fatal(err)
		}
	}
	outside, err1 := outer.ID()
	inside, err2 := inner.ID()
	if err := errors.Join(err1, err2, p.SetParent(0, 4), p.AssignCgroup(inside, 0), p.AssignCgroup(outside, 1), p.AssignUser(0, 2),
		p.AssignPrefix(netip.PrefixFrom(address, 32), 3), p.Attach(outer.Path)); err != nil {
		t.Fatal(err)
	}
	process, err := child.Start(t.Context(), "load", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	shapedState := task{Namespace: client.Name, Network: "udp", Address: sink, Messages: 10, Size: 1000 - 14 - 20 - 8}
	if err := errors.Join(json.NewEncoder(process.In).Encode(shapedState), process.Wait()); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Overflow(); err != nil || n != 10 {
		t.Errorf("%d packets counted, want 10 (%v)", n, err)
	}
}
