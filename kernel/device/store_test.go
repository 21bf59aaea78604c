// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/kernel/device"
)

type shaped struct {
	Rate  int
	Taken device.Record
}

func newStore(t *testing.T, names ...string) device.Store[shaped] {
	t.Helper()
	s := device.Store[shaped]{Dir: filepath.Join(t.TempDir(), "files"), Prefix: "former-"}
	for i, name := range names {
		must(t, s.Put(name, shaped{i, device.Record{Device: name}}))
	}
	return s
}

func devicesIn(t *testing.T, s device.Store[shaped]) (names []string) {
	t.Helper()
	all, err := s.All()
	must(t, err)
	for _, r := range all {
		names = append(names, r.Taken.Device)
	}
	return names
}

func TestStoreReplacesAndFindsRecords(t *testing.T) {
	s := newStore(t, "a", "b")
	must(t, s.Put("a", shaped{7, device.Record{Device: "a"}}))
	if r, err := s.Find("a"); err != nil || r == nil || r.Rate != 7 {
		t.Errorf("found %+v, %v", r, err)
	}
	if r, err := s.Find("c"); err != nil || r != nil {
		t.Errorf("found a record that was never stored: %+v, %v", r, err)
	}
	if got := devicesIn(t, s); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("all records: %v", got)
	}
	if all, err := (device.Store[shaped]{}).All(); err != nil || len(all) > 0 {
		t.Errorf("a store without a folder has %v, %v", all, err)
	}
	if err := (device.Store[shaped]{}).Put("a", shaped{}); err == nil {
		t.Error("stored without a folder")
	}
}

// A failed restore keeps its record and does not prevent the others.
func TestSweepContinuesAfterAnError(t *testing.T) {
	s := newStore(t, "a", "b", "c", "d")
	broken := errors.New("broken")
	var restored []string
	err := s.Sweep(func(key string, r shaped) bool { return key == "d" && r.Taken.Device == "d" }, func(r shaped) error {
		if r.Taken.Device == "b" {
			return broken
		}
		restored = append(restored, r.Taken.Device)
		return nil
	})
	if !errors.Is(err, broken) || !slices.Equal(restored, []string{"a", "c"}) {
		t.Errorf("restored %v, %v", restored, err)
	}
	if got := devicesIn(t, s); !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("records after the sweep: %v", got)
	}
}

// A process killed in Put leaves a temporary file, which is no record and goes with the last one.
func TestStoreOfAKilledProcess(t *testing.T) {
	s := newStore(t, "a")
	must(t, os.WriteFile(filepath.Join(s.Dir, "former-b.json.123"), []byte(`{"Rate"`), 0o600))
	if got := devicesIn(t, s); !slices.Equal(got, []string{"a"}) {
		t.Errorf("all records: %v", got)
	}
	must(t, s.Sweep(func(string, shaped) bool { return false }, func(shaped) error { return nil }))
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left behind: %v", err)
	}
}

func TestUnreadableRecordIsNamed(t *testing.T) {
	s := newStore(t, "a")
	must(t, os.WriteFile(filepath.Join(s.Dir, "former-a.json"), []byte("{"), 0o600))
	if _, err := s.All(); err == nil || !strings.Contains(err.Error(), "former-a.json") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
