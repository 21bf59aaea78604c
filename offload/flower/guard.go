// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"

	"weir/offload/pins"
)

const leasePin = "lease"

// guard is the lease of rules in software. nil is none.
type guard struct{ objects guardObjects }

// newGuard makes a lease, pinned in a folder.
func newGuard(folder string, lease time.Duration) (*guard, error) {
	g := &guard{}
	if err := loadGuardObjects(&g.objects, nil); err != nil {
		return nil, fmt.Errorf("load the program of the lease: %w", err)
	}
	err := g.renew(lease)
	if err == nil {
		err = g.objects.GuardLease.Pin(filepath.Join(folder, leasePin))
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("pin the lease: %w", err)
	}
	return g, nil
}

// descriptor is that of the program; 0 for none.
func (g *guard) descriptor() int {
	if g == nil {
		return 0
	}
	return g.objects.GuardBelieve.FD()
}

func (g *guard) close() {
	if g != nil {
		_ = g.objects.Close()
	}
}

func (g *guard) renew(lease time.Duration) error {
	at, err := pins.Now()
	if err != nil {
		return err
	}
	until := uint64(0)
	if lease > 0 {
		until = at + uint64(lease)
	}
	if err := g.objects.GuardLease.Put(uint32(0), until); err != nil {
		return fmt.Errorf("renew the lease: %w", err)
	}
	return nil
}

// leaseIn is what is left of the lease that is pinned in a folder; below 0 it has ended.
func leaseIn(folder string) (time.Duration, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(folder, leasePin), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("open the lease: %w", err)
	}
	defer func() { _ = m.Close() }()
	var until uint64
	if err := m.Lookup(uint32(0), &until); err != nil {
		return 0, fmt.Errorf("read the lease: %w", err)
	}
	at, err := pins.Now()
	return time.Duration(int64(until - at)), err
}
