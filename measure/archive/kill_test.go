// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/measure/spool"
)

// siteVariable makes this test binary a site: SPOOL:ARCHIVE:N, which kills itself at the N-th step
// of an upload.
const siteVariable = "WEIR_TEST_ARCHIVE_SITE"

func TestMain(m *testing.M) {
	if site := os.Getenv(siteVariable); site != "" {
		fmt.Fprintln(os.Stderr, runSite(site))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runSite stores records without end, prints the name of each one that is acknowledged, and
// archives them.
func runSite(site string) error {
	parts := strings.Split(site, ":")
	s, err := spool.Open(parts[0], spool.Options{MinFree: -1})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for worker := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("host_%d_%02d-%06d", os.Getpid(), worker, i)
				if err := s.Store(context.Background(), "quality1", id, noon, result{id, "192.0.2.1", time.Now(), strings.Repeat("x", i%1000)}); err != nil {
					failed <- err
					return
				}
				_, _ = os.Stdout.WriteString(id + "\n")
			}
		}()
	}
	go func() {
		left, err := strconv.Atoi(parts[2])
		step := func(string) error {
			if left--; left == 0 {
				process, _ := os.FindProcess(os.Getpid())
				_ = process.Kill()
				select {}
			}
			return nil
		}
		d := failing{folderDestination(parts[1]), step, step}
		a, newErr := New(Options{Spool: parts[0], Destination: d, Organization: "example", Node: "mlab1-lga01", MaxBytes: 8 << 10})
		for err == nil && newErr == nil {
			_, err = a.Pass(context.Background(), false)
		}
		failed <- fmt.Errorf("archive: %w, %w", err, newErr)
	}()
	return <-failed
}

// Sites that are killed between and during uploads lose no record and archive none twice.
func TestKilledSitesArchiveEachRecordOnce(t *testing.T) {
	random := testutil.Rand(t)
	dir, to := t.TempDir(), t.TempDir()
	acknowledged := map[string]bool{}
	for round := range 9 {
		step := 1 + random.IntN(20)
		lines := 1 << 30
		if round%3 == 0 { // at any time instead
			step, lines = 1<<30, 1+random.IntN(150)
		}
		for _, id := range testutil.RunKilled(t, fmt.Sprintf("%s=%s:%s:%d", siteVariable, dir, to, step), lines) {
			acknowledged[id] = true
		}
	}
	d := folderDestination(to)
	a := newArchive(t, dir, d)
	if r, err := a.Pass(t.Context(), true); err != nil || len(r.Aside) != 0 {
		t.Fatalf("%+v (%v)", r, err)
	}
	count := archived(t, objects(t, to), d.URL)
	for id, n := range count {
		if n != 1 {
			t.Errorf("%s is in the archive %d times", id, n)
		}
	}
	for id := range acknowledged {
		if count[id] == 0 {
			t.Errorf("%s was acknowledged and is missing", id)
		}
	}
	t.Logf("%d acknowledged, %d archived", len(acknowledged), len(count))
}
