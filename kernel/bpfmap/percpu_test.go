// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"structs"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
)

type pair struct {
	_       structs.HostLayout
	Packets uint64
	Queue   struct {
		_     structs.HostLayout
		Below [2]uint64
	}
}

func pairOf(packets, first, second uint64) (p pair) {
	p.Packets, p.Queue.Below = packets, [2]uint64{first, second}
	return p
}

func TestTotalAddsEveryCounter(t *testing.T) {
	if got, want := Total([]pair{pairOf(1, 2, 3), pairOf(10, 20, 30)}), pairOf(11, 22, 33); got != want {
		t.Errorf("total %v, want %v", got, want)
	}
	if got := Total([]uint64{4, 5}); got != 9 {
		t.Errorf("total %d, want 9", got)
	}
	if got := Total([]pair(nil)); got != (pair{}) {
		t.Errorf("total of no CPU: %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic for a structure with other fields")
		}
	}()
	Total([]struct{ A, B uint32 }{})
}

func TestSumAndClearOfAMap(t *testing.T) {
	testutil.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 24, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	each, want := make([]pair, ebpf.MustPossibleCPU()), pair{}
	for i := range each {
		each[i] = pairOf(uint64(i+1), 2, 3)
		want = Total([]pair{want, each[i]})
	}
	if err := m.Put(uint32(0), each); err != nil {
		t.Fatal(err)
	}
	if got, err := Sum[pair](m, uint32(0)); err != nil || got != want {
		t.Errorf("sum %v, %v, want %v", got, err, want)
	}
	if err := Clear[pair](m, uint32(0)); err != nil {
		t.Fatal(err)
	}
	if got, err := Sum[pair](m, uint32(0)); err != nil || got != (pair{}) {
		t.Errorf("cleared is %v, %v", got, err)
	}
	if _, err := Sum[pair](m, uint32(1)); err == nil {
		t.Error("no error for a missing entry")
	}
}
