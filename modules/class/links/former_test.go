// SPDX-License-Identifier: Apache-2.0

package links

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/bpffs"
	"weir/kernel/device"
)

// Earlier versions pinned each record in a map: the next apply or release takes it over.
func TestPinnedRecordIsAdopted(t *testing.T) {
	const policy = "  eth0: {rate: 10Mbit}\n"
	for _, next := range []string{policy, ""} {
		s := newStage(t, "")
		for line := range strings.Lines(formers["htb"]) {
			run(t, "tc", "-n "+s.here.Name+" "+line)
		}
		before := s.show(t)
		s.apply(t, policy)
		all, err := s.plane.formers().All()
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("%d records", len(all))
		}
		pinRecord(t, s.plane.host.Pins, all[0])
		must(t, s.plane.formers().Delete(formerKey(all[0])))
		if next != "" {
			s.apply(t, next)
		}
		if released, err := s.release(); err != nil || !released {
			t.Fatalf("released %v, %v", released, err)
		}
		if after := s.show(t); after != before {
			t.Errorf("released is\n%s\nwant\n%s", after, before)
		}
	}
}

// pinRecord pins a record in the form of earlier versions.
func pinRecord(t *testing.T, dir string, r device.Record) {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	value := make([]byte, (len(text)+7)&^7)
	copy(value, text)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "links_former", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)), MaxEntries: 1})
	must(t, err)
	defer func() { _ = m.Close() }()
	must(t, m.Put(uint32(0), value))
	must(t, bpffs.Make(dir))
	must(t, m.Pin(filepath.Join(dir, formerPrefix+formerKey(r))))
}
