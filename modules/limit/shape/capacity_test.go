// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"

	"weir/core/module"
	"weir/internal/direction"
)

// When a policy outgrows the maps, counters are kept and all packets are charged in the larger
// maps, also after a crash.
func TestMapsGrowWithThePolicy(t *testing.T) {
	s := newStage(t)
	shaper := s.shaper(direction.Egress, 10*time.Second)
	many := []Shaper{shaper}
	for i := range 20 {
		scope := shaper
		scope.Device, scope.Index = "", i
		many = append(many, scope)
	}
	entries := func() (lines uint32) {
		s.do(func() error {
			p, err := open(s.host.loaded())
			if err == nil {
				lines = p.maps.DelayCounts.MaxEntries()
				err = p.close()
			}
			return err
		})
		return lines
	}
	const n, wire = 20, 1000
	s.apply(shaper)
	if got := entries(); got != uint32(module.Entries(1)) {
		t.Errorf("room for %d shapers", got)
	}
	s.transfer(s.here, s.there, s.address(1), n, wire)
	before := s.counters(shaper)
	if before.Packets < n {
		t.Fatalf("counted %+v", before)
	}
	s.do(func() error { return os.MkdirAll(filepath.Join(s.host.loaded()+"-next", "left"), 0o700) })
	s.apply(many...)
	if got := entries(); got != uint32(module.Entries(len(many))) {
		t.Errorf("room for %d of %d shapers", got, len(many))
	}
	s.transfer(s.here, s.there, s.address(1), n, wire)
	if after := s.counters(shaper); after.Packets < before.Packets+n {
		t.Errorf("%d packets before and %d after %d more", before.Packets, after.Packets, n)
	}
	if _, err := os.Stat(s.host.loaded() + "-next"); !os.IsNotExist(err) {
		t.Error("the smaller maps are still pinned:", err)
	}
	s.do(s.notifies)
	s.apply(many...)
	if again := entries(); again != uint32(module.Entries(len(many))) {
		t.Errorf("room for %d shapers after the same work again", again)
	}
}

// notifies reports whether the pinned programs notify senders.
func (s *stage) notifies() error {
	p, err := open(s.host.loaded())
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	l, err := link.LoadPinnedLink(filepath.Join(s.host.Pins, notifyPin), nil)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	attached, err := l.Info()
	if err != nil {
		return err
	}
	pinned, err := p.notify.Info()
	if err != nil {
		return err
	}
	if id, _ := pinned.ID(); id != attached.Program {
		s.t.Errorf("program %d notifies senders, want %d", attached.Program, id)
	}
	return nil
}
