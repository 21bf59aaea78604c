// SPDX-License-Identifier: Apache-2.0

// Package lease sets rates for a time: then the kernel sets the floor, even if the process that has
// set the rate was killed.
//
// It replaces configurations in the map of a data plane, the policer's or the shaper's. Programs
// and queued packets stay; a higher rate shortens the policer's virtual queue. lease.bpf.c has the
// mechanism, a bpf_timer.
//
// Pitfalls: the map of leases must stay pinned while the limits exist, since unpinning it cancels
// the timers. A data plane that replaces its map of configurations (by growing) must set floors
// first: timers write to the former map.
package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"weir/kernel/bpferr"
	"weir/kernel/bpffs"
)

// Needs lists the requirements of leases.
var Needs = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 5.15 or later with CONFIG_BPF_JIT, for bpf_timer"}

// pin is the name of the pinned map.
const pin = "leases"

// MaxLeases is the maximum number of leases of a table.
const MaxLeases = 1024

// Table is the pinned map of leases.
type Table struct{ leases *ebpf.Map }

// Open opens the table pinned in a folder. The error is fs.ErrNotExist without one.
func Open(dir string) (Table, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, pin), nil)
	if err != nil {
		return Table{}, fmt.Errorf("open leases: %w", bpffs.Opening(err))
	}
	if m.ValueSize() != uint32(unsafe.Sizeof(leaseLease{})) {
		return Table{}, errors.Join(fmt.Errorf("open leases: they are of another version of Weir"), m.Close())
	}
	return Table{m}, nil
}

// create makes and pins an empty table.
func create(dir string) (Table, error) {
	if err := bpffs.Make(dir); err != nil {
		return Table{}, err
	}
	spec, err := loadLease()
	if err != nil {
		return Table{}, fmt.Errorf("read lease program: %w", err)
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return Table{}, Needs.Fault("lift memory lock limit", err)
	}
	m, err := ebpf.NewMap(spec.Maps["leases"])
	if err != nil {
		return Table{}, Needs.Fault("create leases", err)
	}
	if err := m.Pin(filepath.Join(dir, pin)); err != nil {
		return Table{}, errors.Join(bpffs.Fault(err), m.Close())
	}
	return Table{m}, nil
}

// Close closes the table. Its leases stay.
func (t Table) Close() error { return t.leases.Close() }

// Arrange makes the table in a folder have exactly the wanted keys. The leases of other keys end
// without an effect. Without keys it removes the table.
func Arrange(dir string, want map[uint32]bool) error {
	if len(want) == 0 {
		return Remove(dir)
	}
	t, err := Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		t, err = create(dir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	keys, err := t.keys()
	if err != nil {
		return err
	}
	for key := range keys {
		if !want[key] {
			if err := t.leases.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("remove lease %#x: %w", key, err)
			}
		}
	}
	for key := range want {
		if _, there := keys[key]; there {
			continue
		}
		if err := t.leases.Update(key, &leaseLease{Generation: rand.Uint64()}, ebpf.UpdateNoExist); err != nil {
			return Needs.Fault(fmt.Sprintf("make lease %#x", key), err)
		}
	}
	return nil
}

// keys returns the keys of the table with their generations.
func (t Table) keys() (map[uint32]uint64, error) {
	all := map[uint32]uint64{}
	var key uint32
	var value leaseLease
	each := t.leases.Iterate()
	for each.Next(&key, &value) {
		all[key] = value.Generation
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	return all, nil
}

// Remove removes the table of a folder and ends its leases without an effect.
func Remove(dir string) error {
	if t, err := Open(dir); err == nil {
		if keys, err := t.keys(); err == nil {
			for key := range keys {
				_ = t.leases.Delete(key) // a daemon may still hold the map
			}
		}
		_ = t.Close()
	}
	return os.RemoveAll(dir)
}

// Setter sets rates. It is safe for concurrent use.
type Setter struct {
	program     *ebpf.Program
	configs     *ebpf.Map
	queues      *ebpf.Map // nil without virtual queues
	table       Table
	generations map[uint32]uint64
}

// NewSetter loads the program for the table in a folder and a map of configurations. queues are the
// virtual queues by the same keys: each value begins with the end of its queue, an int64 in ns of
// CLOCK_MONOTONIC, and each configuration with the time per byte, a uint64. A higher rate shortens
// them. A data plane without virtual queues has nil. The setter closes both maps.
func NewSetter(dir string, configs, queues *ebpf.Map) (s *Setter, err error) {
	s = &Setter{configs: configs, queues: queues}
	if s.table, err = Open(dir); err != nil {
		return nil, errors.Join(err, s.closeMaps())
	}
	if s.generations, err = s.table.keys(); err == nil {
		err = s.load()
	}
	if err != nil {
		return nil, errors.Join(err, s.table.Close(), s.closeMaps())
	}
	return s, nil
}

func (s *Setter) load() error {
	spec, err := loadLease()
	if err != nil {
		return fmt.Errorf("read lease program: %w", err)
	}
	replacements := map[string]*ebpf.Map{leaseMapConfigs: s.configs}
	if s.queues != nil {
		replacements[leaseMapQueues] = s.queues
		if err := spec.Variables[leaseVarLeaseScales].Set(uint32(1)); err != nil {
			return fmt.Errorf("set lease program: %w", err)
		}
	}
	for name, m := range replacements {
		info, err := m.Info()
		if err != nil {
			return fmt.Errorf("query %s of limits: %w", name, err)
		}
		if info.ValueSize > uint32(leaseLeaseFormatLEASE_CONFIG) {
			return fmt.Errorf("one of the %s has %d bytes, more than %d", name, info.ValueSize, leaseLeaseFormatLEASE_CONFIG)
		}
		c := spec.Maps[name]
		c.Type, c.KeySize, c.ValueSize, c.MaxEntries, c.Flags = info.Type, info.KeySize, info.ValueSize, info.MaxEntries, info.Flags
	}
	replacements[leaseMapLeases] = s.table.leases
	if err := rlimit.RemoveMemlock(); err != nil {
		return Needs.Fault("lift memory lock limit", err)
	}
	var loaded struct {
		Set *ebpf.Program `ebpf:"lease_set"`
	}
	options := &ebpf.CollectionOptions{MapReplacements: replacements}
	if err := spec.LoadAndAssign(&loaded, options); err != nil {
		return Needs.Fault("load lease program", err)
	}
	s.program = loaded.Set
	return nil
}

// ErrGone is returned for a limit that a later apply has removed.
var ErrGone = errors.New("the limit was removed or replaced")

// Set sets a configuration for a time; then floor replaces it. Both are the raw bytes of a value of
// the map of configurations.
func (s *Setter) Set(key uint32, granted, floor []byte, lease time.Duration) error {
	generation, there := s.generations[key]
	if !there {
		return ErrGone
	}
	r := leaseLeaseRequest{Generation: generation, Key: key, ForNs: uint64(max(lease, 0))}
	copy(r.Granted[:], granted)
	copy(r.Floor[:], floor)
	packet := make([]byte, unsafe.Sizeof(r))
	if _, err := binary.Encode(packet, binary.NativeEndian, &r); err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	result, err := s.program.Run(&ebpf.RunOptions{Data: packet})
	switch {
	case err != nil:
		return Needs.Fault("set lease", err)
	case result == 1:
		return ErrGone
	case result != 0:
		return fmt.Errorf("set lease: the kernel sets no timer")
	}
	return nil
}

// Close closes the setter. Leases that it has set end in time.
func (s *Setter) Close() error {
	return errors.Join(s.program.Close(), s.table.Close(), s.closeMaps())
}

func (s *Setter) closeMaps() error {
	if s.queues == nil {
		return s.configs.Close()
	}
	return errors.Join(s.configs.Close(), s.queues.Close())
}
