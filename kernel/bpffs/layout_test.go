// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
)

// An object is read once for all pinned maps; an error of reading it is returned each time.
func TestAnObjectIsReadOnce(t *testing.T) {
	reads := 0
	layouts := Layouts(func() (*ebpf.CollectionSpec, error) {
		reads++
		return &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"counts": {KeySize: 4, ValueSize: 24}}}, nil
	})
	for range 3 {
		if all, err := layouts(); err != nil || len(all) != 1 || all["counts"] != (Layout{4, 24}) {
			t.Errorf("%v, %v", all, err)
		}
	}
	if reads != 1 {
		t.Errorf("it was read %d times", reads)
	}
	broken := errors.New("broken")
	failing := Layouts(func() (*ebpf.CollectionSpec, error) { return nil, broken })
	for range 2 {
		if _, err := failing(); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
}
