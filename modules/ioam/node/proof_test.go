// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"slices"
	"testing"

	"weir/kernel/testutil"
	"weir/modules/ioam/codec"
	"weir/modules/ioam/proof"
)

// The proof of a path holds if every node took part in order.
func TestAProofIsMadeAndChecked(t *testing.T) {
	r := testutil.Rand(t)
	nodes, err := proof.Profiles(4, r.Uint64)
	odd, err2 := proof.Profiles(4, r.Uint64)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	benches := make([]*bench, len(nodes))
	for i, profile := range nodes {
		n := Namespace{ID: 123, Proof: []proof.Profile{profile, odd[i]}, Remove: i == len(nodes)-1, Strict: i == len(nodes)-1}
		benches[i] = newBench(t, aNode(n), aScope(Encapsulation{Options: []Option{{Type: codec.ProofOfTransit, Namespace: 123}}}))
	}
	_, first := benches[0].run(benches[0].objects.IoamEgress, packet(0, nil, 10), skb{})
	for name, test := range map[string]struct {
		path []int
		want uint32
	}{"in order": {[]int{1, 2}, unspec}, "one missed": {[]int{1}, shot}, "out of order": {[]int{2, 1}, shot}, "twice": {[]int{1, 1, 2}, shot}} {
		p := first
		for _, i := range test.path {
			if err := benches[i].setScopesNone(); err != nil {
				t.Fatal(err)
			}
			_, p = benches[i].run(benches[i].objects.IoamEgress, p, skb{From: 1})
		}
		last := benches[3]
		if verdict, _ := last.run(last.objects.IoamIngress, p, skb{}); verdict != test.want {
			t.Errorf("%s: verdict %d, want %d", name, verdict, test.want)
		}
	}
	seen := proveBothProfiles(t, benches)
	last := benches[3]
	if proven, not, dropped := last.counted(ioamIoamCountIOAM_PROVEN), last.counted(ioamIoamCountIOAM_DISPROVEN), last.counted(ioamIoamCountIOAM_UNPROVEN); proven != 1+seen || not != 3 || dropped != 3 {
		t.Errorf("counted %d, %d and %d, want %d, 3 and 3", proven, not, dropped, 1+seen)
	}
	if verdict, _ := last.run(last.objects.IoamIngress, packet(0, hop(codec.NewTrace(123, codec.HopLimitNode, 1, 0)), 0), skb{}); verdict != shot {
		t.Error("a packet without a proof has passed")
	}
}

// proveBothProfiles sends packets over their path until even and odd ids occurred. Each has a
// profile of its own, so one can be replaced while the other is in use.
func proveBothProfiles(t *testing.T, benches []*bench) (packets uint64) {
	t.Helper()
	for parities := map[uint64]bool{}; len(parities) < 2 && packets < 100; packets++ {
		_, p := benches[0].run(benches[0].objects.IoamEgress, packet(0, nil, 10), skb{})
		h, err := codec.DecodeHeader(p[atOptions:])
		if err != nil {
			t.Fatal(err)
		}
		proof, err := codec.DecodeProof(h.Options[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		parities[proof.PacketID&1] = true
		for _, b := range benches[1:3] {
			_, p = b.run(b.objects.IoamEgress, p, skb{From: 1})
		}
		if verdict, _ := benches[3].run(benches[3].objects.IoamIngress, p, skb{}); verdict != unspec {
			t.Errorf("packet %#x is not proven", proof.PacketID)
		}
	}
	return packets
}

// Each proof is accepted once, and in any order within the window; older ones are rejected.
func TestProofsAreNotReplayed(t *testing.T) {
	r := testutil.Rand(t)
	nodes, err := proof.Profiles(2, r.Uint64)
	odd, err2 := proof.Profiles(2, r.Uint64)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		odd  bool
	}{{"two profiles", true}, {"one profile", false}} {
		t.Run(test.name, func(t *testing.T) {
			namespace := func(i int) Namespace {
				n := Namespace{ID: 123, Proof: []proof.Profile{nodes[i], odd[i]}, Remove: i == 1, Strict: i == 1}
				if !test.odd {
					n.Proof[1] = proof.Profile{}
				}
				return n
			}
			in := newBench(t, aNode(namespace(0)), aScope(Encapsulation{Options: []Option{{Type: codec.ProofOfTransit, Namespace: 123}}}))
			out := newBench(t, aNode(namespace(1)))
			var sent [][]byte
			for range 6000 {
				_, p := in.run(in.objects.IoamEgress, packet(0, nil, 10), skb{})
				sent = append(sent, p)
			}
			check := func(p []byte, want uint32, what string) {
				t.Helper()
				if verdict, _ := out.run(out.objects.IoamIngress, p, skb{}); verdict != want {
					t.Errorf("%s: verdict %d, want %d", what, int32(verdict), int32(want))
				}
			}
			recent := slices.Clone(sent[2500:])
			r.Shuffle(len(recent), func(i, j int) { recent[i], recent[j] = recent[j], recent[i] })
			for _, p := range recent {
				check(p, unspec, "a shuffled packet")
			}
			for _, p := range recent[:200] {
				check(p, shot, "its copy")
			}
			for _, p := range sent[:100] {
				check(p, shot, "an old packet")
			}
			if n := out.counted(ioamIoamCountIOAM_REPLAYED); n != 300 {
				t.Errorf("%d replays were counted, want 300", n)
			}
			out.set(aNode(namespace(1))) // the same policy again
			check(sent[5999], shot, "a copy after another apply")
			in.again(aNode(namespace(0)), aScope(Encapsulation{Options: []Option{{Type: codec.ProofOfTransit, Namespace: 123}}}))
			_, p := in.run(in.objects.IoamEgress, packet(0, nil, 10), skb{})
			check(p, unspec, "a new packet after another apply")
		})
	}
}

// setScopesNone removes the scope.
func (b *bench) setScopesNone() error {
	return b.objects.IoamScopes.Put(uint32(3), ioamIoamScope{})
}
