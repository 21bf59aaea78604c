// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/kernel/probe"
	"weir/kernel/testutil"
)

// configs makes a map as in a data plane, with a configuration of the given first byte at key 7.
func configs(t *testing.T, kind ebpf.MapType, first byte) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: kind, KeySize: 4, ValueSize: 96, MaxEntries: 16})
	if err == nil {
		err = m.Put(uint32(7), config(first))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func config(first byte) []byte { return append([]byte{first}, make([]byte, 95)...) }

func value(t *testing.T, m *ebpf.Map) byte {
	t.Helper()
	got, err := m.LookupBytes(uint32(7))
	if err != nil || got == nil {
		t.Fatal(err)
	}
	return got[0]
}

func becomes(t *testing.T, m *ebpf.Map, want byte) {
	t.Helper()
	testutil.Eventually(t, 10*time.Second, fmt.Sprintf("configuration %d", want), func() bool { return value(t, m) == want })
}

func TestALeaseEndsWithoutItsProcess(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	for _, kind := range []ebpf.MapType{ebpf.Array, ebpf.Hash} {
		t.Run(kind.String(), func(t *testing.T) {
			dir := filepath.Join(testutil.BPFFS(t), "lease")
			m := configs(t, kind, 1)
			if err := Arrange(dir, map[uint32]bool{7: true}); err != nil {
				t.Fatal(err)
			}
			s := setter(t, dir, m)
			if err := s.Set(7, config(2), config(3), time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := value(t, m); got != 2 {
				t.Errorf("after the grant: %d", got)
			}
			if err := s.Set(7, config(4), config(3), 50*time.Millisecond); err != nil { // in place of the first
				t.Fatal(err)
			}
			if err := s.Close(); err != nil { // as after the end of the process
				t.Fatal(err)
			}
			becomes(t, m, 3)
		})
	}
}

func setter(t *testing.T, dir string, m *ebpf.Map) *Setter {
	t.Helper()
	own, err := m.Clone()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSetter(dir, own)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRemovedLimitsGetNoRate(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	dir := filepath.Join(testutil.BPFFS(t), "lease")
	m := configs(t, ebpf.Array, 1)
	if err := Arrange(dir, map[uint32]bool{7: true}); err != nil {
		t.Fatal(err)
	}
	s := setter(t, dir, m)
	defer func() { _ = s.Close() }()
	if err := s.Set(7, config(2), config(3), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(8, config(2), config(3), time.Minute); !errors.Is(err, ErrGone) {
		t.Errorf("a limit without a lease: %v", err)
	}
	if err := Arrange(dir, map[uint32]bool{9: true}); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(uint32(7), config(9)); err != nil { // another limit, not leased
		t.Fatal(err)
	}
	if err := s.Set(7, config(2), config(3), time.Minute); !errors.Is(err, ErrGone) {
		t.Errorf("a removed limit: %v", err)
	}
	if err := Arrange(dir, map[uint32]bool{7: true, 9: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(7, config(2), config(3), time.Minute); !errors.Is(err, ErrGone) {
		t.Errorf("a later limit of the same number: %v", err)
	}
	// A lease that is set now ends after that of the removed limit would have.
	if err := m.Put(uint32(9), config(1)); err != nil {
		t.Fatal(err)
	}
	later := setter(t, dir, m)
	defer func() { _ = later.Close() }()
	if err := later.Set(9, config(2), config(3), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 10*time.Second, "the end of a later lease", func() bool {
		got, err := m.LookupBytes(uint32(9))
		return err == nil && got[0] == 3
	})
	if got := value(t, m); got != 9 {
		t.Errorf("the removed lease has changed the configuration to %d", got)
	}
}
