// SPDX-License-Identifier: Apache-2.0

package flower

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"

	"weir/kernel/bpferr"
	"weir/modules/offload/pins"
	"weir/modules/offload/sample"
)

const leasePin = "lease"

// guard is the lease of rules in software. nil is none.
type guard struct{ objects guardObjects }

// newGuard creates a lease, pinned in a folder unless that is "".
func newGuard(folder string, lease time.Duration, budgeted bool) (*guard, error) {
	g := &guard{}
	spec, err := loadGuard()
	if err != nil {
		return nil, fmt.Errorf("read the program of the lease: %w", err)
	}
	if err := sample.Ready(spec, budgeted); err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&g.objects, nil); err != nil {
		return nil, programNeeds.Fault("load the program of the lease", err)
	}
	err = g.renew(lease)
	if folder == "" {
		return g, err
	}
	if err == nil {
		err = g.objects.GuardLease.Pin(filepath.Join(folder, leasePin))
	}
	for name, m := range g.samples().By() {
		err = errors.Join(err, m.Pin(filepath.Join(folder, name)))
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("pin the lease: %w", err)
	}
	return g, nil
}

// descriptor returns the program's file descriptor; 0 without one.
func (g *guard) descriptor() int {
	if g == nil {
		return 0
	}
	return g.objects.GuardBelieve.FD()
}

// samples returns the samples of passing packets; none without a guard, as in a NIC.
func (g *guard) samples() sample.Sampler {
	if g == nil {
		return sample.Sampler{}
	}
	return sample.Sampler{Maps: sample.Maps{Places: g.objects.SamplePlaces, Facts: g.objects.SampleFacts, Seen: g.objects.SampleSeen}}
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

// leaseIn returns the rest of the lease pinned in a folder; below 0 it has expired.
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

// programNeeds lists the requirements of the programs.
var programNeeds = bpferr.Needs{Capabilities: bpferr.Standard, Kernel: "Linux 6.1 or later with CONFIG_BPF_JIT"}
