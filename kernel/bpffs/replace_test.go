// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"weir/kernel/testutil"
)

// array returns an array map with one entry that identifies it.
func array(t *testing.T, value uint32) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Put(uint32(0), value); err != nil {
		t.Fatal(err)
	}
	return m
}

func pinned(t *testing.T, path string) (value uint32) {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if err := m.Lookup(uint32(0), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestReplaceIsAllOrNothing(t *testing.T) {

	for _, c := range []struct {
		name string
		stop func(dir string) error // leaves the folder as after a crash
		want uint32
	}{
		{"no crash", nil, 2},
		{"before all pins are staged", func(dir string) error { return array(t, 2).Pin(filepath.Join(dir, "a"+NextSuffix)) }, 1},
		{"after all pins are staged", func(dir string) error {
			return errors.Join(array(t, 2).Pin(filepath.Join(dir, "a"+NextSuffix)), array(t, 2).Pin(filepath.Join(dir, "b"+NextSuffix)), os.Mkdir(filepath.Join(dir, Replaced), 0o700))
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testutil.BPFFS(t)
			if err := errors.Join(array(t, 1).Pin(filepath.Join(dir, "a")), array(t, 1).Pin(filepath.Join(dir, "b"))); err != nil {
				t.Fatal(err)
			}
			if c.stop == nil {
				if err := Replace(dir, map[string]Pinner{"a": array(t, 2), "b": array(t, 2)}, nil); err != nil {
					t.Fatal(err)
				}
			} else {
				if err := c.stop(dir); err != nil {
					t.Fatal(err)
				}
				if !Replacing(dir) {
					t.Error("the crash is not reported")
				}
				if err := Complete(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"a", "b"} {
				if got := pinned(t, filepath.Join(dir, name)); got != c.want {
					t.Errorf("%s is map %d, want %d", name, got, c.want)
				}
			}
			if Replacing(dir) {
				t.Error("the folder has staged pins or the marker")
			}
		})
	}
}
