// SPDX-License-Identifier: Apache-2.0

package match

import (
	"encoding/json"
	"net/netip"
	"testing"
)

func TestKeysThatADataPlaneCannotTellApartAreEqual(t *testing.T) {
	for _, test := range []struct {
		one, other string
		same       bool
	}{
		{"::ffff:10.5.0.0/112", "10.5.0.0/16", true},
		{"::ffff:10.5.1.2/128", "10.5.1.2/32", true},
		{"::ffff:0.0.0.0/96", "0.0.0.0/0", true},
		{"10.5.6.7/16", "10.5.0.0/16", true},
		{"2001:db8::1/32", "2001:db8::/32", true},
		{"::ffff:0.0.0.0/95", "0.0.0.0/0", false},
		{"10.5.0.0/16", "10.5.0.0/17", false},
		{"10.5.0.0/16", "::10.5.0.0/112", false},
	} {
		one, other := OfPrefix(netip.MustParsePrefix(test.one)), OfPrefix(netip.MustParsePrefix(test.other))
		if (one == other) != test.same {
			t.Errorf("%s and %s: keys %v and %v, want the same: %t", test.one, test.other, one.Prefix, other.Prefix, test.same)
		}
		if (one.prefix() == other.prefix()) != test.same {
			t.Errorf("%s and %s: entries %v and %v, want the same: %t", test.one, test.other, one.prefix(), other.prefix(), test.same)
		}
	}
}

func TestKeysInWordsAndAsJSON(t *testing.T) {
	for _, test := range []struct {
		key         Key
		words, json string
	}{
		{OfCgroup(7), "cgroup id 7 and the cgroups below it", `{"kind":"cgroup","number":7}`},
		{OfUser(0), "the socket's user", `{"kind":"user"}`},
		{OfInterface(3), "interface index 3", `{"kind":"interface","number":3}`},
		{OfPrefix(netip.MustParsePrefix("10.0.0.0/8")), "longest remote prefix", `{"kind":"prefix","prefix":"10.0.0.0/8"}`},
		{OfNetns(5), "network namespace cookie 5", `{"kind":"netns","number":5}`},
		{OfMark(16), "socket mark 0x10", `{"kind":"mark","number":16}`},
	} {
		if got := test.key.String(); got != test.words {
			t.Errorf("%q, want %q", got, test.words)
		}
		text, err := json.Marshal(test.key)
		if err != nil || string(text) != test.json {
			t.Errorf("%s (%v), want %s", text, err, test.json)
		}
		var back Key
		if err := json.Unmarshal(text, &back); err != nil || back != test.key {
			t.Errorf("%s became %+v (%v)", text, back, err)
		}
		if err := test.key.check(); err != nil {
			t.Errorf("%s: %v", test.words, err)
		}
	}
}

func TestKeysThatNoPacketCouldHaveAreRefused(t *testing.T) {
	for _, key := range []Key{{}, {Kind: "colour"}, OfPrefix(netip.Prefix{}), OfInterface(-1), {Kind: Mark, Number: 1 << 32}} {
		if _, err := (Maps{}).Reassign(nil, Assignments{key: 1}); err == nil {
			t.Errorf("%+v was assigned", key)
		}
	}
}

// A range of users is covered exactly, in few keys.
func TestRangesOfUsersAreAlignedBlocks(t *testing.T) {
	for _, r := range []struct{ first, count uint32 }{{100000, 65536}, {165536, 65536}, {0, 1}, {0, 7}, {1, 1}, {7, 9}, {65536, 65536}, {1<<32 - 5, 5}, {1<<32 - 1, 1}} {
		keys := OfUsers(r.first, r.count)
		var sum uint64
		at := uint64(r.first)
		for _, k := range keys {
			size := uint64(1)
			if k.Bits > 0 {
				size = 1 << (32 - k.Bits)
			}
			if err := k.check(); err != nil || k.Number != at || k.Number%size != 0 {
				t.Errorf("%+v: key %+v after %d: %v", r, k, at, err)
			}
			at, sum = at+size, sum+size
		}
		if sum != uint64(r.count) || len(keys) > 2*16 {
			t.Errorf("%+v: %d keys of %d users", r, len(keys), sum)
		}
	}
}
