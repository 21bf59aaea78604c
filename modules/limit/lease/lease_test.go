// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/kernel/clock"
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
	s, err := NewSetter(dir, own, nil)
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

// A virtual queue is as long in bytes after its rate has risen, and as long in time after it has
// fallen.
func TestAHigherRateShortensTheQueue(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "jit", probe.JIT())
	dir := filepath.Join(testutil.BPFFS(t), "lease")
	m := configs(t, ebpf.Array, 0)
	queues, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 64, MaxEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = queues.Close() }()
	if err := Arrange(dir, map[uint32]bool{7: true}); err != nil {
		t.Fatal(err)
	}
	ownConfigs, err := m.Clone()
	if err != nil {
		t.Fatal(err)
	}
	ownQueues, err := queues.Clone()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSetter(dir, ownConfigs, ownQueues)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	cost := func(perByte uint64) []byte {
		return append(binary.NativeEndian.AppendUint64(nil, perByte), make([]byte, 88)...)
	}
	const hour = int64(time.Hour)
	for _, c := range []struct {
		name          string
		before, after uint64 // cost of a byte
		queue, want   int64
	}{
		{"raise", 20 << 24, 1 << 24, hour, hour / 20},
		{"cut", 1 << 24, 20 << 24, hour, hour},
		{"same", 5 << 24, 5 << 24, hour, hour},
		{"idle", 20 << 24, 1 << 24, -hour, -hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := s.Set(7, cost(c.before), cost(c.before), time.Minute); err != nil {
				t.Fatal(err)
			}
			end := clock.Now() + c.queue
			if err := queues.Put(uint32(7), append(binary.NativeEndian.AppendUint64(nil, uint64(end)), make([]byte, 56)...)); err != nil {
				t.Fatal(err)
			}
			before := clock.Now()
			if err := s.Set(7, cost(c.after), cost(c.before), time.Minute); err != nil {
				t.Fatal(err)
			}
			got, err := queues.LookupBytes(uint32(7))
			if err != nil {
				t.Fatal(err)
			}
			left := int64(binary.NativeEndian.Uint64(got)) - before
			const slack = hour / 1000 // the ratio has 16 bits, and time passes
			if left < c.want-slack || left > c.want+slack {
				t.Errorf("a queue of %v has become %v, want %v", time.Duration(c.queue), time.Duration(left), time.Duration(c.want))
			}
		})
	}
}
