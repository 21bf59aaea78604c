// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// record is a test's record of some size.
type record struct {
	UUID    string
	EndTime time.Time
	Filler  string `json:",omitempty"`
}

var noon = time.Date(2026, 11, 26, 12, 0, 0, 123456789, time.UTC)

func open(t testing.TB, dir string, o Options) *Spool {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// files returns the records of a spool, by their path below it.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && path != dir {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, path)
		found[below] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestManyStoresShareCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	const n = 500
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			id := fmt.Sprintf("host_1_%016X", i)
			if err := s.Store(t.Context(), "quality1", id, noon, record{UUID: id, EndTime: noon}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	found := files(t, dir)
	if len(found) != n {
		t.Errorf("%d files, want %d", len(found), n)
	}
	for path, text := range found {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil || strings.Contains(text, "\n") || !strings.Contains(path, r.UUID) {
			t.Errorf("%s holds %q (%v)", path, text, err)
		}
	}
}

func TestTheSameRecordTwiceIsOneFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	for _, filler := range []string{"a", "b", "a", "b", "c"} {
		if err := s.Store(t.Context(), "annotation2", "host_1_A", noon, record{"host_1_A", noon, filler}); err != nil {
			t.Fatal(err)
		}
	}
	found := files(t, dir)
	for _, name := range []string{"host_1_A.json", "host_1_A.2.json", "host_1_A.3.json"} {
		if found["ndt/annotation2/2026/11/26/"+name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if len(found) != 3 {
		t.Errorf("%d files, want 3: %v", len(found), found)
	}
}

func TestAFolderRemovedByAnArchiveIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	for i := range 5 {
		if err := s.Store(t.Context(), "quality1", fmt.Sprint("u", i), noon, record{}); err != nil {
			t.Fatal(err)
		}
		if len(files(t, dir)) != 1 {
			t.Fatalf("round %d: %v", i, files(t, dir))
		}
		if err := os.RemoveAll(filepath.Join(dir, "weir")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoreReportsItsReason(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	for what, test := range map[string]struct {
		datatype, uuid string
		record         any
		want           error
	}{
		"a path as UUID":       {"latency1", "../../etc/passwd", record{}, ErrInvalid},
		"an empty UUID":        {"ndt7", "", record{}, ErrInvalid},
		"two dots":             {"ndt7", "a..b", record{}, ErrInvalid},
		"a long UUID":          {"ndt7", strings.Repeat("a", 300), record{}, ErrInvalid},
		"a path as datatype":   {"../ndt7", "a", record{}, ErrInvalid},
		"a path of datatypes":  {"ndt/a/b", "a", record{}, ErrInvalid},
		"a list":               {"ndt7", "a", []int{1}, ErrInvalid},
		"null":                 {"ndt7", "a", nil, ErrInvalid},
		"a function":           {"ndt7", "a", func() {}, ErrInvalid},
		"a broken raw message": {"ndt7", "a", json.RawMessage(`{"a":`), ErrInvalid},
		"a time as a number":   {"ndt7", "a", json.RawMessage(`{"EndTime":1}`), ErrInvalid},
	} {
		if err := s.Store(t.Context(), test.datatype, test.uuid, noon, test.record); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", what, err, test.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Store(ended, "quality1", "late", noon, record{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Store(t.Context(), "quality1", "a", noon, record{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, scratchFolder)); err != nil || len(left) != 0 {
		t.Errorf("temporary files after Close: %v, %v", left, err)
	}
}

func TestMidnightAndAClockThatIsSetBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	midnight := time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC)
	for i, end := range []time.Time{midnight, midnight.Add(1), midnight.Add(-time.Hour), midnight.In(time.FixedZone("", 3600))} {
		id := fmt.Sprint("u", i)
		if err := s.Store(t.Context(), "quality1", id, noon, record{id, end, ""}); err != nil {
			t.Fatal(err)
		}
	}
	found := files(t, dir)
	for _, name := range []string{
		"weir/quality1/2026/12/31/quality1-20261231T235959.999999999Z.u0.json",
		"weir/quality1/2027/01/01/quality1-20270101T000000.000000000Z.u1.json",
		"weir/quality1/2026/12/31/quality1-20261231T225959.999999999Z.u2.json",
		"weir/quality1/2026/12/31/quality1-20261231T235959.999999999Z.u3.json",
	} {
		if found[name] == "" {
			t.Errorf("%s is missing: %v", name, found)
		}
	}
}
