// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weir/internal/fault"
	"weir/modules/offload/state"
)

func sample() *state.State {
	s := state.New()
	s.Host = state.Host{Forward6: true, RPFilter: 2, MultiHash: 1}
	s.Links[3] = state.Link{Index: 3, Name: "eth0", MAC: state.MAC{2, 3, 4, 5, 6, 7}, MTU: 9000, MTU6: 1500, Up: true, Lower: true, Ethernet: true, Forward4: true, RPFilter: 1}
	s.Links[4] = state.Link{Index: 4, Name: `odd"name`, Kind: "vlan", Parent: 3, VLAN: 7, Protocol: 0x8100, Master: 9, Elsewhere: true}
	s.Addresses[state.Address{Link: 3, At: netip.MustParsePrefix("192.0.2.1/24")}] = true
	s.Neighbors[state.Where{Link: 3, At: netip.MustParseAddr("2001:db8::2")}] = state.Neighbor{MAC: state.MAC{1, 2, 3, 4, 5, 6}, Valid: true, Stale: true}
	s.Rules = []state.Rule{{Priority: 1, IPv6: true, Action: 1, Table: 7, From: netip.MustParsePrefix("10.0.0.0/8"), In: "eth0", Other: "fwmark", Inverted: true, Suppress: -1},
		{Priority: 2, Action: 1, Table: 254, Suppress: 0}}
	two := s.GroupOf([]state.Hop{{Link: 3, Via: netip.MustParseAddr("192.0.2.9"), Weight: 1}, {Link: 4, Via: netip.MustParseAddr("192.0.2.10"), Weight: 5, Dead: true, Encap: true}})
	s.Put(254, netip.MustParsePrefix("198.51.100.0/24"), state.Route{Type: state.Unicast, Group: two, MTU: 1400, Several: true})
	s.Put(254, netip.MustParsePrefix("198.51.100.0/24"), state.Route{Type: 6, Metric: 7, TOS: 8})
	s.Put(1000, netip.MustParsePrefix("2001:db8:1::/48"), state.Route{Type: state.Unicast, Group: s.GroupOf([]state.Hop{{Link: 3, Weight: 1}})})
	return s
}

func written(t *testing.T, s *state.State) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAFileHoldsTheWholeState(t *testing.T) {
	want := sample()
	text := written(t, want)
	got, err := state.Read(strings.NewReader(text), "x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(state.State{}), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("read (-written +read):\n%s", diff)
	}
	for g := range want.Groups() {
		if diff := cmp.Diff(want.Hops(state.Group(g)), got.Hops(state.Group(g)), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("group %d:\n%s", g, diff)
		}
	}
	if again := written(t, got); again != text {
		t.Errorf("written again it differs:\n%s\n%s", text, again)
	}
}

func TestMistakesOfAFileAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "x: the file is empty",
		"something":                          "x:1: the first line",
		state.Header + "\nlink":              "x:2: the line ends too early",
		state.Header + "\n\nfoo 1":           `x:3: "foo" is not a kind of object`,
		state.Header + "\nroute 10.0.0.0/33": "x:2: netip",
		state.Header + "\nroute 10.0.0.0/8 group 4": "no line before defines group 4",
		state.Header + "\ngroup 1 via 10.0.0.1":     "a group begins with a hop",
		state.Header + "\naddress 3 10.0.0.1/8 x":   "unexpected word",
		state.Header + "\nlink 99999999999":         "is not a number",
	} {
		_, err := state.Read(strings.NewReader(text), "x")
		if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), want) || fault.Advice(err) == "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// For any file, Read returns without a panic, and its state survives Write and Read.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.String())
	f.Add(state.Header + "\ngroup 1 hop 3 via ::ffff:1.2.3.4\nroute ::ffff:1.2.3.0/120 group 1\n")
	f.Add(state.Header + "\nneighbor 3 fe80::1%eth0 mac 1:2:3:4:5:6\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := state.Read(strings.NewReader(text), "x")
		if err != nil {
			return
		}
		first := written(t, s)
		again, err := state.Read(strings.NewReader(first), "x")
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := written(t, again); second != first {
			t.Fatalf("written again it differs:\n%s\n%s", first, second)
		}
	})
}
