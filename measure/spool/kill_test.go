// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

// writerVariable makes this test binary a writer into the spool that it names.
const writerVariable = "WEIR_TEST_SPOOL_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		fmt.Fprintln(os.Stderr, write(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// write stores records without end, and prints the name of each one that is acknowledged.
func write(dir string) error {
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for worker := range 20 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("host_%d_%02d-%06d", os.Getpid(), worker, i)
				if err := s.Store(context.Background(), "quality1", id, noon, record{id, noon, strings.Repeat("x", 1+i%5000)}); err != nil {
					failed <- err
					return
				}
				_, _ = os.Stdout.WriteString(id + "\n") // one write: whole lines
			}
		}()
	}
	return <-failed
}

// A killed writer leaves each acknowledged record as a whole file, and no partial one.
func TestKilledWritersLoseNothing(t *testing.T) {
	random := testutil.Rand(t)
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for range 15 {
		for _, id := range testutil.RunKilled(t, writerVariable+"="+dir, 1+random.IntN(200)) {
			acknowledged[id] = true
		}
	}
	found := map[string]bool{}
	for path, text := range files(t, dir) {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil || found[r.UUID] || !strings.Contains(path, r.UUID) {
			t.Errorf("%s: %v, or twice", path, err)
		}
		found[r.UUID] = true
	}
	for id := range acknowledged {
		if !found[id] {
			t.Errorf("%s was acknowledged and is missing", id)
		}
	}
	t.Logf("%d acknowledged, %d found", len(acknowledged), len(found))
	open(t, dir, Options{})
	if left, err := os.ReadDir(filepath.Join(dir, scratchFolder)); err != nil || len(left) != 1 {
		t.Errorf("%d folders of writers after the restart (%v), want its own", len(left), err)
	}
}
